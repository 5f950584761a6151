// Breakout, a game of our own with the layout of the well-known one, as a process: lines on standard input, frames on output.
//   build/release/examples/breakout [--speed 3.74] [--delay 2] [--arch 24] [--log FILE.csv]
// README.md beside it has the rules and the protocol.
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the board, in pixels; x to the right, y down, edges of pixel k at k and k + 1 ---------------------------------------
enum {
  width = 160,
  height = 210,
  wall = 8,
  roof_from = 17,
  roof_to = 32,
  paddle_row = 189,
  paddle_width = 16,
  paddle_height = 4
};
enum { rows = 6, columns = 18, brick_width = 8, brick_height = 6, bricks_top = 57, brick_count = rows * columns };
enum { lives = 5, longest_delay = 60, most_frames = 100000, line_length = 64 };
static const double radius = 1;
static const int points[rows] = {7, 7, 4, 4, 1, 1};  // by row, the top one first
static const double speeds[] = {3, 4, 5, 6};         // pixels a frame, after 0, 4, 8, 12 hits with the paddle
static const int hits_a_speed = 4, fastest = 3;

enum { black, grey, red, orange, yellow, green, teal, blue, white, color_count };
static const unsigned char palette[color_count][3] = {{0, 0, 0},      {142, 142, 142}, {200, 72, 72},
                                                      {198, 108, 58}, {180, 122, 48},  {162, 162, 42},
                                                      {72, 160, 72},  {66, 72, 200},   {236, 236, 236}};
static const unsigned char row_color[rows] = {red, orange, yellow, green, teal, blue};
enum { paddle_color = red };  // and the ball's: no color tells them from the top row

typedef enum Action { stay, fire, right, left, action_count } Action;
static const char *const action_name[action_count] = {"stay", "fire", "right", "left"};

typedef struct Vec {
  double x, y;
} Vec;

typedef struct Rules {
  double speed;  // of the paddle, pixels a frame
  int delay;     // frames until an action acts
  double arch;   // radius of the paddle's top
  FILE *log;     // what is true, for a referee; NULL: none
} Rules;

typedef struct Game {
  Rules rules;
  uint64_t random;
  double paddle;  // its center
  Vec ball, velocity;
  bool flying, begun;
  bool brick[brick_count];
  Action waiting[longest_delay + 1];
  int frame, score, lives, hits, left;  // hits: with the paddle, by this ball; left: bricks
} Game;

static bool is_over(const Game *g) { return !g->lives || !g->left || g->frame >= most_frames; }

// ---- physics: straight flight between elastic impacts, each at its very time ---------------------------------------------
typedef struct Impact {
  double time;  // frames from now on
  Vec normal;   // towards the ball
  int brick;    // or what is below
} Impact;
enum { nothing = -3, of_paddle = -2, of_wall = -1 };

static double dot(Vec a, Vec b) { return a.x * b.x + a.y * b.y; }

// An impact at `time`, if it is the first one and the ball approaches. Where rounding left an overlap it is at once.
static void offer(Impact *first, Vec velocity, double time, Vec normal, int what) {
  if (dot(velocity, normal) >= 0 || time < -1e-9 || time >= first->time) return;
  *first = (Impact){.time = time > 0 ? time : 0, .normal = normal, .brick = what};
}

// With a circle of radius r about c, where the ball is a point.
static bool meet_circle(const Game *g, Vec c, double r, double *time, Vec *normal) {
  // |from + t v| = r, its earlier root, if the ball comes nearer.
  Vec from = {g->ball.x - c.x, g->ball.y - c.y}, v = g->velocity;
  double a = dot(v, v), b = dot(from, v), inside = b * b - a * (dot(from, from) - r * r);
  if (b >= 0 || inside < 0) return false;

  *time = (-b - sqrt(inside)) / a;
  *normal = (Vec){(from.x + *time * v.x) / r, (from.y + *time * v.y) / r};
  return true;
}

// With a box, whose corners are round for the ball's center.
static void meet_box(const Game *g, Impact *first, Vec low, Vec high, int what) {
  Vec at = g->ball, v = g->velocity;

  // Its sides, moved outwards by the radius.
  for (int side = -1; side <= 1; side += 2) {
    double tx = ((side < 0 ? low.x - radius : high.x + radius) - at.x) / v.x;
    double ty = ((side < 0 ? low.y - radius : high.y + radius) - at.y) / v.y;
    double y = at.y + tx * v.y, x = at.x + ty * v.x;

    if (v.x != 0 && y >= low.y && y <= high.y) offer(first, v, tx, (Vec){side, 0}, what);
    if (v.y != 0 && x >= low.x && x <= high.x) offer(first, v, ty, (Vec){0, side}, what);
  }

  for (int corner = 0; corner < 4; corner++) {
    Vec c = {corner & 1 ? high.x : low.x, corner & 2 ? high.y : low.y}, normal;
    double time;

    if (meet_circle(g, c, radius, &time, &normal)) offer(first, v, time, normal, what);
  }
}

// Its top is an arc of its width, whose middle is at the row of its drawing. It is at rest while the ball flies.
static void meet_paddle(const Game *g, Impact *first) {
  double r = g->rules.arch, time;
  Vec center = {g->paddle, paddle_row + r}, normal;
  if (!meet_circle(g, center, r + radius, &time, &normal)) return;

  if (normal.y < 0 && fabs(normal.x) * r <= paddle_width / 2.) offer(first, g->velocity, time, normal, of_paddle);
}

static Impact first_impact(const Game *g, double within) {
  Impact first = {.time = within, .brick = nothing};
  Vec at = g->ball, v = g->velocity;
  offer(&first, v, (wall + radius - at.x) / v.x, (Vec){1, 0}, of_wall);
  offer(&first, v, (width - wall - radius - at.x) / v.x, (Vec){-1, 0}, of_wall);
  offer(&first, v, (roof_to + radius - at.y) / v.y, (Vec){0, 1}, of_wall);
  meet_paddle(g, &first);

  for (int k = 0; k < brick_count; k++) {
    Vec low = {wall + k % columns * brick_width, bricks_top + k / columns * brick_height};
    Vec high = {low.x + brick_width, low.y + brick_height};
    if (g->brick[k]) meet_box(g, &first, low, high, k);
  }
  return first;
}

// What an impact changes besides the direction: a brick is gone, the ball becomes faster.
static void count_impact(Game *g, int what) {
  if (what >= 0) {
    g->brick[what] = false;
    g->left--;
    g->score += points[what / columns];
  } else if (what == of_paddle) {
    // Off the arc at the speed of its hits so far.
    int level = ++g->hits / hits_a_speed;
    double factor = speeds[level < fastest ? level : fastest] / hypot(g->velocity.x, g->velocity.y);
    g->velocity = (Vec){factor * g->velocity.x, factor * g->velocity.y};
  }
}

static void fly(Game *g) {
  double rest = 1;
  while (rest > 0) {
    Impact impact = first_impact(g, rest);
    g->ball.x += impact.time * g->velocity.x;
    g->ball.y += impact.time * g->velocity.y;
    rest -= impact.time;
    if (impact.brick == nothing) return;

    // v -= 2 (v . n) n: elastic, without friction.
    double twice = -2 * dot(g->velocity, impact.normal);
    g->velocity.x += twice * impact.normal.x;
    g->velocity.y += twice * impact.normal.y;
    count_impact(g, impact.brick);
  }
}

// ---- the rules ------------------------------------------------------------------------------------------------------------
// Uniform in [0, 1): splitmix64 (Steele, Lea & Flood 2014).
static double draw(Game *g) {
  uint64_t z = g->random += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.;
}

static void begin(Game *g, uint64_t seed) {
  *g = (Game){.rules = g->rules, .random = seed, .paddle = width / 2., .begun = true, .lives = lives, .left = brick_count};
  memset(g->brick, true, sizeof g->brick);
}

// From below the bricks downwards, 20 to 50 degrees to either side.
static void serve(Game *g) {
  double angle = (20 + 30 * draw(g)) * acos(-1) / 180, side = draw(g) < .5 ? -1 : 1;

  g->ball = (Vec){40 + 80 * draw(g), 105};
  g->velocity = (Vec){side * speeds[0] * sin(angle), speeds[0] * cos(angle)};
  g->flying = true;
  g->hits = 0;
}

static void advance(Game *g, Action action) {
  g->waiting[g->rules.delay] = action;
  Action acting = g->waiting[0];
  memmove(g->waiting, g->waiting + 1, (size_t)g->rules.delay * sizeof *g->waiting);

  // The paddle goes first, then the ball, for which it stands still.
  const double first = wall + paddle_width / 2., last = width - first;
  if (acting == right) g->paddle += g->rules.speed;
  if (acting == left) g->paddle -= g->rules.speed;
  g->paddle = fmin(fmax(g->paddle, first), last);

  if (g->flying) fly(g);
  if (acting == fire && !g->flying) serve(g);

  // A ball that left the board at its bottom is lost.
  g->frame++;
  if (!g->flying || g->ball.y <= height) return;
  g->flying = false;
  g->lives--;
}

// ---- pictures -------------------------------------------------------------------------------------------------------------
typedef unsigned char Picture[height][width];

static void fill(Picture p, int x, int y, int w, int h, unsigned char color) {
  for (int j = y < 0 ? 0 : y; j < y + h && j < height; j++) {
    for (int i = x < 0 ? 0 : x; i < x + w && i < width; i++) p[j][i] = color;
  }
}

// A digit of 3 by 5 squares, two pixels each; nine bits and six are its rows from the top.
static void draw_digit(Picture p, int x, int digit) {
  static const int shape[10] = {075557, 026227, 071747, 071717, 055711, 074717, 074757, 071111, 075757, 075717};
  for (int bit = 0; bit < 15; bit++) {
    if (shape[digit] >> (14 - bit) & 1) fill(p, x + 2 * (bit % 3), 3 + 2 * (bit / 3), 2, 2, white);
  }
}

static void draw_game(const Game *g, Picture p) {
  memset(p, black, sizeof(Picture));
  for (int place = 0, rest = g->score; place < 3; place++, rest /= 10) draw_digit(p, 52 - 8 * place, rest % 10);
  draw_digit(p, 100, g->lives);

  fill(p, 0, roof_from, width, roof_to - roof_from, grey);
  fill(p, 0, roof_to, wall, height - roof_to, grey);
  fill(p, width - wall, roof_to, wall, height - roof_to, grey);
  for (int k = 0; k < brick_count; k++) {
    int x = wall + k % columns * brick_width, y = bricks_top + k / columns * brick_height;
    if (g->brick[k]) fill(p, x, y, brick_width, brick_height, row_color[k / columns]);
  }
  fill(p, (int)lround(g->paddle) - paddle_width / 2, paddle_row, paddle_width, paddle_height, paddle_color);
  if (g->flying) fill(p, (int)lround(g->ball.x) - 1, (int)lround(g->ball.y) - 2, 2, 4, paddle_color);
}

// ---- lines in, frames out -------------------------------------------------------------------------------------------------
static bool greet(void) {
  printf("{\"game\": \"breakout\", \"width\": %d, \"height\": %d, \"actions\": [", width, height);
  for (int k = 0; k < action_count; k++) printf("%s\"%s\"", k ? ", " : "", action_name[k]);

  printf("], \"palette\": [");
  for (int k = 0; k < color_count; k++) printf("%s[%d, %d, %d]", k ? ", " : "", palette[k][0], palette[k][1], palette[k][2]);

  printf("]}\n");
  return fflush(stdout) == 0;
}

static bool answer(const Game *g) {
  static Picture picture;
  draw_game(g, picture);

  printf("{\"frame\": %d, \"score\": %d, \"lives\": %d, \"over\": %s}\n", g->frame, g->score, g->lives,
         is_over(g) ? "true" : "false");
  bool whole = fwrite(picture, 1, sizeof picture, stdout) == sizeof picture && fflush(stdout) == 0;

  Vec b = g->flying ? g->ball : (Vec){NAN, NAN}, v = g->flying ? g->velocity : b;
  if (g->rules.log) {
    fprintf(g->rules.log, "%d,%.17g,%.17g,%.17g,%.17g,%.17g\n", g->frame, g->paddle, b.x, b.y, v.x, v.y);
    whole = whole && !ferror(g->rules.log);
  }
  return whole;
}

// What is wrong with a line, or NULL after it was done.
static const char *obey(Game *g, const char *line) {
  if (!strncmp(line, "reset ", 6)) {
    char *end;
    errno = 0;
    unsigned long long seed = strtoull(line + 6, &end, 10);  // takes signs and blanks, too, which are no digits
    if (line[6] < '0' || line[6] > '9' || *end || errno)
      return "expected a whole number from 0 on, less than 2^64, after 'reset'";
    begin(g, seed);
    return NULL;
  }

  for (int k = 0; k < action_count; k++) {
    if (strcmp(line, action_name[k])) continue;
    if (!g->begun) return "expected 'reset SEED' before the first action";
    if (is_over(g)) return "the game is over: expected 'reset SEED'";
    advance(g, (Action)k);
    return NULL;
  }
  return "expected 'reset SEED', 'stay', 'fire', 'right' or 'left'";
}

static int failed(const char *what) {
  fprintf(stderr, "breakout: %s: %s\n", what, strerror(errno));
  return 1;
}

// A line without its end; false where there is none. What is too long or has a zero in it is no command: it gets a question mark.
static bool read_line(char line[line_length]) {
  int count = 0, c;
  while ((c = getchar()) != EOF && c != '\n') {
    if (count < line_length - 1) line[count++] = (char)(c ? c : '?');
    else line[count - 1] = '?';
  }

  bool found = c == '\n' || count > 0;
  if (count > 0 && line[count - 1] == '\r') count--;
  line[count] = 0;
  return found;
}

static int play(Game *g) {
  char line[line_length];
  if (!greet()) return failed("standard output");

  for (int number = 1; read_line(line); number++) {
    const char *wrong = obey(g, line);
    if (wrong) {
      fprintf(stderr, "breakout: line %d: %s; found '%s'\n", number, wrong, line);
      return 2;
    }

    if (!answer(g)) return failed("a frame cannot be written");
  }
  return ferror(stdin) ? failed("standard input") : 0;
}

// ---- options --------------------------------------------------------------------------------------------------------------
static bool refuse(const char *name, const char *expected, const char *found) {
  fprintf(stderr, "breakout: %s: expected %s, found '%s'\n", name, expected, found);
  return false;
}

// A number out of an option's value.
static bool read_number(const char *name, const char *text, double low, double high, double *value) {
  char *end, expected[80];
  *value = strtod(text, &end);
  if (end != text && !*end && *value >= low && *value <= high) return true;

  snprintf(expected, sizeof expected, "a number from %g to %g", low, high);
  return refuse(name, expected, text);
}

static bool read_delay(const char *name, const char *text, int *delay) {
  double number;
  if (!read_number(name, text, 0, longest_delay, &number)) return false;

  *delay = (int)number;
  return *delay == number || refuse(name, "a whole number of frames", text);
}

static bool open_log(const char *path, FILE **log) {
  if (*log) return refuse("--log", "one file", path);

  *log = fopen(path, "w");
  if (!*log) return !failed(path);
  fprintf(*log, "frame,paddle,x,y,vx,vy\n");
  return true;
}

static bool read_option(Rules *rules, const char *name, const char *value) {
  if (!value) return refuse(name, "a value behind it", "");

  // No paddle passes the board within a frame; an arc has at least the paddle's half width for a radius.
  if (!strcmp(name, "--speed")) return read_number(name, value, 0, width, &rules->speed);
  if (!strcmp(name, "--arch")) return read_number(name, value, paddle_width / 2., 1e6, &rules->arch);
  if (!strcmp(name, "--delay")) return read_delay(name, value, &rules->delay);
  if (!strcmp(name, "--log")) return open_log(value, &rules->log);
  return refuse("options", "--speed, --delay, --arch or --log", name);
}

int main(int argc, char **argv) {
  static Game game = {.rules = {.speed = 3.74, .delay = 2, .arch = 24}};
  bool fine = true;
  for (int k = 1; k < argc && fine; k += 2) fine = read_option(&game.rules, argv[k], k + 1 < argc ? argv[k + 1] : NULL);

  int status = fine ? play(&game) : 2;
  if (game.rules.log && fclose(game.rules.log)) return failed("--log");
  return status;
}
