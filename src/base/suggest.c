// "did you mean ...?": the nearest of some names to a word that is none of them.
// Tests: tests/unit/test_compile.c.
#include "base/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <pullback/base.h>

#include "base/assert.h"

enum { LONGEST = 63 };

static int least(int a, int b) { return a < b ? a : b; }

static int change_cost(char a, char b) { return tolower((unsigned char)a) == tolower((unsigned char)b) ? 0 : 2; }

// The distance of Damerau and Levenshtein (optimal string alignment): insertions, deletions, changes and swaps of neighbors
// cost 2; only case differs: 0.
int pbSuggest_Distance(const char *a, const char *b) {
  size_t na = strnlen(a, LONGEST), nb = strnlen(b, LONGEST);
  int row[3][LONGEST + 1];  // the last three rows of the table of distances between beginnings
  int *before = row[0], *last = row[1], *now = row[2];

  for (size_t j = 0; j <= nb; j++) last[j] = before[j] = 2 * (int)j;
  for (size_t i = 1; i <= na; i++) {
    now[0] = 2 * (int)i;
    for (size_t j = 1; j <= nb; j++) {
      int d = least(least(now[j - 1], last[j]) + 2, last[j - 1] + change_cost(a[i - 1], b[j - 1]));

      // Two letters swapped.
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d = least(d, before[j - 2] + 2);
      now[j] = d;
    }

    int *free_row = before;
    before = last;
    last = now;
    now = free_row;
  }

  PB_ASSERT(last[nb] >= 0 && last[nb] <= 2 * (int)(na > nb ? na : nb));  // at most all letters change

  // Words that differ in case alone are not the same.
  return last[nb] ? last[nb] : strncmp(a, b, LONGEST) != 0;
}

// Further away than a third of the word (and at least one letter) nobody can have meant it.
pbSuggest pbSuggest_For(const char *word) {
  int length = (int)strnlen(word, LONGEST);
  int limit = 2 * (length / 3 > 1 ? length / 3 : 1);
  return (pbSuggest){word, NULL, limit + 1};
}

// "friction" for "geom_friction": the end of the candidate behind an underscore.
static int is_last_part(const char *word, const char *candidate) {
  size_t n = strlen(word), m = strlen(candidate);
  return n >= 3 && m > n + 3 && candidate[m - n - 1] == '_' && pbSuggest_Distance(word, candidate + m - n) <= 1;
}

// "ctrl" for "control": the same first and last letter, the others in order, at least half of them.
static int is_short_for(const char *word, const char *candidate) {
  size_t n = strlen(word), m = strlen(candidate), found = 0;
  if (n < 3 || m <= n || m > 2 * n || word[0] != candidate[0] || word[n - 1] != candidate[m - 1]) return 0;

  for (size_t i = 0; i < m && found < n; i++) found += candidate[i] == word[found];
  return found == n;
}

void pbSuggest_Offer(pbSuggest *s, const char *candidate) {
  if (!candidate || !*candidate) return;

  // A name that is a longer way to say the same counts as near.
  int d = pbSuggest_Distance(s->word, candidate);
  if (is_last_part(s->word, candidate)) {
    d = least(d, 1);
  } else if (is_short_for(s->word, candidate)) {
    d = least(d, 2);
  }

  if (d < s->distance) {
    s->best = candidate;
    s->distance = d;
  }
}

const char *pbSuggest_Write(const pbSuggest *s, char *text, size_t size) {
  if (!size) return "";
  if (s->best) {
    snprintf(text, size, ", did you mean '%.200s'?", s->best);
  } else {
    text[0] = 0;
  }
  return text;
}

const char *pbName_Nearest(const char *word, const char *const *names, int count) {
  pbSuggest nearest = pbSuggest_For(word);

  for (int i = 0; i < count; i++) pbSuggest_Offer(&nearest, names[i]);

  return nearest.best;
}
