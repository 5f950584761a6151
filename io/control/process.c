// A plant that is another process: a child that is asked and answers over pipes, one JSON object a line (docs/control.md).
// Tests: tests/oracle/test_control.py.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pullback/io.h>

#include "base/context.h"
#include "io/control/plant.h"
#include "io/json/read.h"
#include "io/progress.h"
#include "model/joint.h"
#include "model/model.h"
#include "step/scratch.h"

enum { LONGEST_LINE = 16 << 20, SLICE = 50 };  // bytes; ms between two looks at whether the run shall end
static const double first_silence = 60;        // s that a program may take to start

typedef struct Part {  // numbers that a line has in one list
  const char *key;
  int count, offset;  // in the state; of controls 0
  int *place;         // where the plant's k-th number goes; NULL: in the model's order
} Part;
enum { QPOS, QVEL, ACT, CTRL, PARTS };

typedef struct Process {
  pbPlantWait wait;
  const double *start;  // a state, whose other fields stay
  pid_t pid;
  int to, from;  // its standard input and output
  char *buffer;
  size_t filled, used, room;  // used: bytes of lines that were read
  long line;
  double *sent;  // nu
  Part part[PARTS];
} Process;

// ---- errors -------------------------------------------------------------------------------------------------------------
static pbStatus fail(const pbPlant *plant, const char *format, ...) PB_PRINTF(2, 3);
static pbStatus fail(const pbPlant *plant, const char *format, ...) {
  const Process *p = plant->own;
  char text[700];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return pbContext_Fail(plant->ctx, pb_file, "the plant, line %ld: %s", p->line, text);
}

static pbStatus no_memory(const pbPlant *plant) { return pbContext_Fail(plant->ctx, pb_no_memory, "no memory for a plant"); }

// ---- the child ------------------------------------------------------------------------------------------------------------
static void close_end(int *end) {
  if (*end >= 0) close(*end);
  *end = -1;
}

static void be_child(const char *command, const int in[2], const int out[2]) {
  // in a group of its own: an interrupt of the terminal is for who asks, and tells the child by the end of its input
  setpgid(0, 0);
  dup2(in[0], STDIN_FILENO);
  dup2(out[1], STDOUT_FILENO);
  for (int i = 0; i < 2; i++) {
    if (in[i] > STDERR_FILENO) close(in[i]);
    if (out[i] > STDERR_FILENO) close(out[i]);
  }

  // what this program holds or ignores is none of the child's
  sigset_t none;
  sigemptyset(&none);
  signal(SIGPIPE, SIG_DFL);
#ifdef SIGXFSZ
  signal(SIGXFSZ, SIG_DFL);
#endif
  sigprocmask(SIG_SETMASK, &none, NULL);
  execl("/bin/sh", "sh", "-c", command, (char *)NULL);
  _exit(127);
}

static pbStatus start_child(pbPlant *plant, const char *command) {
  Process *p = plant->own;
  int in[2] = {-1, -1}, out[2] = {-1, -1};
  bool piped = pipe(in) == 0 && pipe(out) == 0;
  p->pid = piped ? fork() : -1;
  if (p->pid == 0) be_child(command, in, out);
  int reason = errno;

  close_end(&in[0]);
  close_end(&out[1]);
  p->to = in[1];
  p->from = out[0];
  if (p->pid < 0) return pbContext_Fail(plant->ctx, pb_file, "the plant cannot be started: %s", strerror(reason));

  // as the child does, whoever comes first; no other child inherits the pipes; one that does not read holds nobody up
  setpgid(p->pid, p->pid);
  fcntl(p->to, F_SETFD, FD_CLOEXEC);
  fcntl(p->from, F_SETFD, FD_CLOEXEC);
  fcntl(p->to, F_SETFL, O_NONBLOCK);
  return pb_ok;
}

// Whether it has ended by now, or within so many seconds.
static bool has_ended(Process *p, double seconds, int *how) {
  const struct timespec moment = {.tv_nsec = 2000000};
  for (double begun = pb_seconds();;) {
    pid_t ended = waitpid(p->pid, how, WNOHANG);
    if (ended == p->pid || (ended < 0 && errno != EINTR)) break;
    if (pb_seconds() - begun > seconds) return false;
    nanosleep(&moment, NULL);
  }
  p->pid = -1;
  return true;
}

static void end_child(Process *p) {
  int how;
  close_end(&p->to);
  close_end(&p->from);
  if (p->pid <= 0 || has_ended(p, 0.5, &how)) return;
  kill(-p->pid, SIGKILL);
  while (waitpid(p->pid, &how, 0) < 0 && errno == EINTR) continue;
  p->pid = -1;
}

static pbStatus ended(pbPlant *plant) {
  Process *p = plant->own;
  int how = 0;
  char text[80] = "closed its output";
  if (has_ended(p, 0.5, &how)) {
    if (WIFSIGNALED(how)) snprintf(text, sizeof text, "ended by signal %d", WTERMSIG(how));
    else snprintf(text, sizeof text, "ended with exit status %d", WEXITSTATUS(how));
  }
  p->line++;
  return fail(plant, "expected an answer; it %s", text);
}

// ---- lines ----------------------------------------------------------------------------------------------------------------
// Until the pipe can be read or written; `since` when it was asked.
static pbStatus wait_for(pbPlant *plant, int end, short events, double since, double silence) {
  Process *p = plant->own;
  struct pollfd look = {.fd = end, .events = events};
  for (;;) {
    int ready = poll(&look, 1, SLICE);
    if (ready > 0) return pb_ok;
    if (ready < 0 && errno != EINTR) return fail(plant, "%s", strerror(errno));

    const pbProgress progress = {"plant", 0, 1, pb_seconds() - since, -1, NAN};
    if (p->wait.stop && p->wait.stop(p->wait.user, &progress))
      return pbContext_Fail(plant->ctx, pb_interrupted, "interrupted at step %ld", plant->steps);
    if (pb_seconds() - since < silence) continue;
    p->line++;
    return fail(plant, "silent for %g s: expected %s", silence, events == POLLIN ? "an answer" : "that it reads what it is told");
  }
}

// A pipe that nobody reads raises a signal, which is held back and taken away: an error says it.
static ssize_t write_quietly(int end, const char *text, size_t size) {
  sigset_t pipe_alone, before, waiting;
  int number;
  sigemptyset(&pipe_alone);
  sigaddset(&pipe_alone, SIGPIPE);
  sigpending(&waiting);
  bool there = sigismember(&waiting, SIGPIPE) == 1;

  pthread_sigmask(SIG_BLOCK, &pipe_alone, &before);
  ssize_t wrote = write(end, text, size);
  int reason = errno;
  sigpending(&waiting);
  if (wrote < 0 && reason == EPIPE && !there && sigismember(&waiting, SIGPIPE) == 1) sigwait(&pipe_alone, &number);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = reason;
  return wrote;
}

static pbStatus write_line(pbPlant *plant, const char *text, size_t size) {
  Process *p = plant->own;
  double begun = pb_seconds();
  for (size_t done = 0; done < size;) {
    ssize_t wrote = write_quietly(p->to, text + done, size - done);
    if (wrote > 0) done += (size_t)wrote;
    else if (errno == EPIPE) return ended(plant);
    else if (errno == EAGAIN) PB_TRY(wait_for(plant, p->to, POLLOUT, begun, p->wait.silence));
    else if (errno != EINTR) return fail(plant, "%s", strerror(errno));
  }
  return pb_ok;
}

static pbStatus make_room(pbPlant *plant) {
  Process *p = plant->own;
  memmove(p->buffer, p->buffer + p->used, p->filled - p->used);
  p->filled -= p->used;
  p->used = 0;
  bool longest = p->room >= LONGEST_LINE;
  if (p->filled < (longest ? p->room : p->room / 2)) return pb_ok;
  if (longest) {
    p->line++;
    return fail(plant, "longer than %d MiB", LONGEST_LINE >> 20);
  }

  char *grown = pbContext_Resize(plant->ctx, p->buffer, 2 * p->room);
  if (!grown) return no_memory(plant);
  p->buffer = grown;
  p->room *= 2;
  return pb_ok;
}

// The next line, without its end, in the buffer until the next call.
static pbStatus read_line(pbPlant *plant, double silence, const char **text, size_t *length) {
  Process *p = plant->own;
  double begun = pb_seconds();
  for (;;) {
    char *from = p->buffer + p->used, *end = memchr(from, '\n', p->filled - p->used);
    if (end) {
      *text = from;
      *length = (size_t)(end - from);
      p->used += *length + 1;
      p->line++;
      return pb_ok;
    }

    PB_TRY(make_room(plant));
    PB_TRY(wait_for(plant, p->from, POLLIN, begun, silence));
    ssize_t got = read(p->from, p->buffer + p->filled, p->room - p->filled);
    if (got == 0) return ended(plant);
    if (got < 0 && errno != EINTR && errno != EAGAIN) return fail(plant, "%s", strerror(errno));
    if (got > 0) p->filled += (size_t)got;
  }
}

static pbStatus read_object(pbPlant *plant, double silence, json_t **object) {
  const char *text = NULL;
  size_t length = 0;
  json_error_t error;
  bool memory;
  PB_TRY(read_line(plant, silence, &text, &length));
  *object = pbJson_Read(text, length, JSON_REJECT_DUPLICATES, &error, &memory);
  if (memory) return no_memory(plant);
  if (!*object) return fail(plant, "column %d: not valid JSON: %s", error.column, error.text);
  if (json_is_object(*object)) return pb_ok;

  json_decref(*object);
  return fail(plant, "expected an object {...}");
}

// ---- the first line: names and sizes ----------------------------------------------------------------------------------------
// Numbers of a thing in the model's list, and where they begin; its number -1: there is none of this name.
static int numbers_of(const pbModel *m, int part, const char *name, int *at) {
  int id = pbModel_Id(m, part == CTRL ? pb_objActuator : pb_objJoint, name);
  if (id < 0) return 0;
  *at = id;
  if (part == CTRL) return 1;

  // of a joint its positions or its degrees of freedom
  *at = part == QPOS ? m->jnt_qposadr[id] : m->jnt_dofadr[id];
  return part == QPOS ? pbJoint_PositionCount(m->jnt_type[id]) : pbJoint_DofCount(m->jnt_type[id]);
}

// Names in the plant's order: each stands for all numbers of its joint.
static pbStatus read_names(pbPlant *plant, int number, const json_t *names) {
  Process *p = plant->own;
  Part *part = &p->part[number];
  int filled = 0;
  part->place = pbContext_AllocArray(plant->ctx, (size_t)part->count + 1, sizeof *part->place);
  if (!part->place) return no_memory(plant);

  for (size_t i = 0; i < json_array_size(names); i++) {
    const char *name = json_string_value(json_array_get(names, i));
    int at = 0, count = name ? numbers_of(plant->model, number, name, &at) : 0;
    if (!count)
      return fail(plant, "%s[%zu]: expected the name of %s of the task's model, found '%.60s'", part->key, i,
                  number == CTRL ? "an actuator" : "a joint", name ? name : "no text");
    for (int k = 0; k < filled; k++) {
      if (part->place[k] == at) return fail(plant, "%s[%zu]: '%.60s' a second time", part->key, i, name);
    }
    for (int k = 0; k < count && filled < part->count; k++) part->place[filled++] = at + k;
  }
  if (filled == part->count) return pb_ok;
  return fail(plant, "%s: expected names of %d numbers in all, found %d", part->key, part->count, filled);
}

static pbStatus read_part(pbPlant *plant, int number, const json_t *first) {
  const Process *p = plant->own;
  const Part *part = &p->part[number];
  const json_t *value = json_object_get(first, part->key);

  // who has none may leave it out
  if (!value && part->count == 0) return pb_ok;
  if (number != ACT && json_is_array(value)) return read_names(plant, number, value);
  if (json_is_integer(value) && json_integer_value(value) == part->count) return pb_ok;
  if (json_is_integer(value))
    return fail(plant, "%s: expected %d numbers, as the task's model has; found %lld", part->key, part->count,
                (long long)json_integer_value(value));
  return fail(plant, "%s: expected how many numbers%s", part->key, number == ACT ? "" : ", or a list of names");
}

static pbStatus read_first(pbPlant *plant) {
  json_t *first;
  PB_TRY(read_object(plant, first_silence, &first));

  pbStatus status = pb_ok;
  for (int i = 0; i < PARTS && status == pb_ok; i++) status = read_part(plant, i, first);
  const json_t *timestep = json_object_get(first, "timestep");
  plant->timestep = json_number_value(timestep);
  if (status == pb_ok && !(json_is_number(timestep) && plant->timestep > 0 && plant->timestep < 1e6))
    status = fail(plant, "timestep: expected seconds above 0");
  json_decref(first);
  return status;
}

// ---- answers ----------------------------------------------------------------------------------------------------------------
static pbStatus take_numbers(pbPlant *plant, const Part *part, const json_t *answer, double *x) {
  const json_t *list = json_object_get(answer, part->key);
  if (part->count == 0 && !list) return pb_ok;
  if (!json_is_array(list) || json_array_size(list) != (size_t)part->count)
    return fail(plant, "%s: expected a list of %d numbers, found %s%zu", part->key, part->count, list ? "" : "none, ",
                json_array_size(list));

  for (int k = 0; k < part->count; k++) {
    const json_t *value = json_array_get(list, (size_t)k);
    if (!json_is_number(value)) return fail(plant, "%s[%d]: expected a number", part->key, k);
    x[part->offset + (part->place ? part->place[k] : k)] = json_number_value(value);
  }
  return pb_ok;
}

static pbStatus take_answer(pbPlant *plant, const json_t *answer, bool first) {
  const Process *p = plant->own;
  const json_t *t = json_object_get(answer, "t"), *done = json_object_get(answer, "done");
  char text[400];
  if (!json_is_number(t)) return fail(plant, "t: expected seconds");
  if (done && !json_is_boolean(done)) return fail(plant, "done: expected true or false");
  for (int i = QPOS; i <= ACT; i++) PB_TRY(take_numbers(plant, &p->part[i], answer, plant->x));

  double time = json_number_value(t), before = first ? -1e9 : plant->time;
  if (!(time >= before && time <= 1e9)) return fail(plant, "t: expected a time from %.9g on, found %.9g", before, time);

  // one that stands still would never come to the end of the run
  bool stands = time == before && !json_is_true(done);
  if (stands) return fail(plant, "t: expected a time after %.9g, that of the answer before", before);
  pbStateField clock;
  if (pbPlant_Field(plant->model, "time", &clock)) plant->x[clock.offset] = time;
  if (!pbState_Readable(plant->model, plant->x, text, sizeof text)) return fail(plant, "%s", text);

  plant->time = time;
  plant->done = json_is_true(done);
  return pb_ok;
}

// Whether there is more than was asked for, read or not.
static bool is_ahead(const Process *p) {
  struct pollfd look = {.fd = p->from, .events = POLLIN};
  bool more = poll(&look, 1, 0) > 0 && (look.revents & (POLLIN | POLLHUP)) == POLLIN;
  return more || p->filled > p->used;
}

static pbStatus said_unasked(pbPlant *plant) {
  Process *p = plant->own;
  p->line++;
  return fail(plant, "nothing was asked: expected one line for each that it is told");
}

static pbStatus ask(pbPlant *plant, pbDraft *draft, bool first) {
  const Process *p = plant->own;
  char *text;
  size_t length;
  json_t *answer;
  fputc('\n', draft->stream);
  PB_TRY(pbDraft_End(draft, &text, &length));

  // an answer too many would be taken for the next one
  pbStatus status = is_ahead(p) ? said_unasked(plant) : write_line(plant, text, length);
  pbContext_Free(plant->ctx, text);
  PB_TRY(status);

  PB_TRY(read_object(plant, p->wait.silence, &answer));
  status = take_answer(plant, answer, first);
  json_decref(answer);
  return status;
}

// ---- what a plant does ------------------------------------------------------------------------------------------------------
static pbStatus reset_process(pbPlant *plant, uint64_t seed) {
  const Process *p = plant->own;
  pbDraft draft;
  PB_TRY(pbDraft_Begin(plant->ctx, &draft));
  memcpy(plant->x, p->start, (size_t)pbModel_StateSize(plant->model) * sizeof *plant->x);
  plant->steps = 0;

  pbJson j = {.out = draft.stream, .compact = true};
  pbJson_Open(&j, NULL, '{');
  pbJson_Integer(&j, "reset", (int64_t)seed);
  pbJson_Close(&j, '}');
  return ask(plant, &draft, true);
}

static pbStatus step_process(pbPlant *plant, const double *ctrl) {
  const Process *p = plant->own;
  const Part *u = &p->part[CTRL];
  pbDraft draft;
  for (int k = 0; k < u->count; k++) p->sent[k] = ctrl[u->place ? u->place[k] : k];
  PB_TRY(pbDraft_Begin(plant->ctx, &draft));

  pbJson j = {.out = draft.stream, .compact = true};
  pbJson_Open(&j, NULL, '{');
  pbJson_Number(&j, "t", plant->time);
  pbJson_Numbers(&j, "u", p->sent, (size_t)u->count);
  pbJson_Close(&j, '}');
  PB_TRY(ask(plant, &draft, false));
  plant->steps++;
  return pb_ok;
}

static void destroy_process(pbPlant *plant) {
  Process *p = plant->own;
  if (p) {
    end_child(p);
    for (int i = 0; i < PARTS; i++) pbContext_Free(plant->ctx, p->part[i].place);
    pbContext_Free(plant->ctx, p->buffer);
    pbContext_Free(plant->ctx, p->sent);
  }
  pbContext_Free(plant->ctx, p);
  pbContext_Free(plant->ctx, plant->x);
}

static pbStatus begin(pbPlant *plant, const pbTask *task, const pbPlantWait *wait) {
  const pbModel *m = task->model;
  Process *p = plant->own;
  *p = (Process){.wait = *wait, .start = task->trajectories[0].x0, .pid = -1, .to = -1, .from = -1, .room = 1 << 16};
  static const char *const keys[PARTS] = {"qpos", "qvel", "act", "u"};
  for (int i = 0; i < PARTS; i++) {
    pbStateField field = {.size = m->nu};
    if (i != CTRL && !pbPlant_Field(m, keys[i], &field)) field = (pbStateField){.size = 0};
    p->part[i] = (Part){.key = keys[i], .count = field.size, .offset = field.offset};
  }

  p->buffer = pbContext_Alloc(plant->ctx, p->room);
  p->sent = pbContext_AllocArray(plant->ctx, (size_t)m->nu + 1, sizeof *p->sent);
  plant->x = pbContext_AllocArray(plant->ctx, (size_t)pbModel_StateSize(m) + 1, sizeof *plant->x);
  return p->buffer && p->sent && plant->x ? pb_ok : no_memory(plant);
}

// Lines say positions, velocities and activations: what else a state has stays as it was at the start.
static pbStatus check_state(const pbPlant *plant) {
  static const char *const said[] = {"time", "qpos", "qvel", "act", "qacc_warmstart"};
  for (int i = 0; i < pbModel_StateFieldCount(plant->model); i++) {
    pbStateField field = pbModel_StateFieldAt(plant->model, i);
    bool known = field.size == 0;
    for (size_t k = 0; k < sizeof said / sizeof *said; k++) known = known || strcmp(field.name, said[k]) == 0;
    if (!known)
      return pbContext_Fail(plant->ctx, pb_unsupported,
                            "another process as plant tells qpos, qvel and act; a state of the task's model has '%s', too",
                            field.name);
  }
  return pb_ok;
}

pbStatus pbPlant_OfProcess(pbContext *ctx, const pbTask *task, const char *command, const pbPlantWait *wait, pbPlant *plant) {
  static const pbPlantKind kind = {reset_process, step_process, destroy_process};
  *plant = (pbPlant){.kind = &kind, .ctx = ctx, .model = task->model, .theta = task->theta};
  plant->own = pbContext_Alloc(ctx, sizeof(Process));

  pbStatus status = plant->own ? begin(plant, task, wait) : no_memory(plant);
  if (status == pb_ok) status = check_state(plant);
  if (status == pb_ok) status = start_child(plant, command);
  if (status == pb_ok) status = read_first(plant);
  if (status != pb_ok) pbPlant_Destroy(plant);
  return status;
}
