// --page: a result as a page, with the command that makes it again.
// Tests: tests/oracle/test_pages.py.
#include <string.h>

#include <pullback/view.h>

#include "cli.h"

// A word as a shell takes it.
static void put_word(const char *word, FILE *out) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (*word && word[strspn(word, plain)] == 0) {
    fputs(word, out);
    return;
  }

  fputc('\'', out);
  for (; *word; word++) {
    if (*word == '\'') fputs("'\\''", out);
    else fputc(*word, out);
  }
  fputc('\'', out);
}

static pbStatus write_command(cliApp *app, char **text) {
  pbDraft draft;
  PB_TRY(pbDraft_Begin(app->ctx, &draft));

  fputs("pullback", draft.stream);
  for (int i = 0; i < app->args.typed.count; i++) {
    fputc(' ', draft.stream);
    put_word(app->args.typed.items[i], draft.stream);
  }
  return pbDraft_End(&draft, text, NULL);
}

pbStatus cliPage_CanWrite(cliApp *app) {
  const char *file = app->args.text[opt_page];
  return file ? pbFile_CanWrite(app->ctx, file) : pb_ok;
}

static pbStatus save_page(cliApp *app, const pbPageHead *head, cliPut *put, void *user) {
  pbDraft page;
  PB_TRY(pbDraft_Begin(app->ctx, &page));

  pbStatus status = put(user, head, page.stream);
  if (status == pb_ok) return cli_saveDraft(app, app->args.text[opt_page], &page);
  pbDraft_Drop(&page);
  return status;
}

pbStatus cliPage_Save(cliApp *app, const char *path, cliPut *put, void *user) {
  char *command = NULL;
  if (!app->args.text[opt_page]) return pb_ok;
  PB_TRY(write_command(app, &command));

  pbStatus status = save_page(app, &(pbPageHead){.path = path, .command = command}, put, user);
  pbContext_Free(app->ctx, command);
  return status;
}
