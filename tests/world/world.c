// A world that fails: preloaded into a process, it makes the n-th call of a kind fail, once or from then on. Memory is refused
// where the C library's functions are called, by whichever library; files fail at the system call itself, so that what stdio does
// with a short write is in it. Described in tests/world/failing_world.py.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#define EXPORT __attribute__((visibility("default")))

typedef enum Kind {
  kind_malloc,
  kind_calloc,
  kind_realloc,
  kind_aligned,
  kind_open,
  kind_read,
  kind_write,
  kind_fsync,
  kind_rename,
  kind_link,
  kind_unlink,
  kind_mmap,
  kind_thread,
  kind_count
} Kind;
static const char *const kind_names[kind_count] = {"malloc", "calloc", "realloc", "aligned", "open", "read",  "write",
                                                   "fsync",  "rename", "link",    "unlink",  "mmap", "thread"};

// What a run leaves behind, in a file that outlives a crash.
typedef struct Book {
  _Atomic int64_t calls[kind_count];
  _Atomic int64_t fired, alive;
} Book;
static Book own_book, *book = &own_book;

// Which call fails: `how` is an errno, or 0 for half of what was asked (read, write).
static struct {
  _Atomic int kind;  // kind_count: none
  long at;
  bool ever;
  int how;
} plan = {.kind = kind_count};

// Only below calls of one library, where that is asked for: its code lies here.
static struct {
  const char *name;
  uintptr_t begin, end;
} only;
static _Thread_local bool looking;

static _Unwind_Reason_Code is_inside(struct _Unwind_Context *frame, void *found) {
  uintptr_t at = _Unwind_GetIP(frame);
  if (at < only.begin || at >= only.end) return _URC_NO_REASON;
  *(bool *)found = true;
  return _URC_NORMAL_STOP;
}

// Is this call counted? The unwinder's own calls are not.
static bool counts(void) {
  if (!only.name) return true;
  if (looking) return false;

  bool found = false;
  looking = true;
  _Unwind_Backtrace(is_inside, &found);
  looking = false;
  return found;
}

static bool fails(Kind kind) {
  if (!counts()) return false;
  long n = atomic_fetch_add(&book->calls[kind], 1) + 1;
  if (plan.kind != (int)kind || (plan.ever ? n < plan.at : n != plan.at)) return false;
  atomic_fetch_add(&book->fired, 1);
  return true;
}

// ---- memory -----------------------------------------------------------------------------------------------------------
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static void *noted(void *memory) {
  if (memory) atomic_fetch_add(&book->alive, 1);
  return memory;
}

static void *refuse(void) {
  errno = ENOMEM;
  return NULL;
}

EXPORT void *malloc(size_t size) { return fails(kind_malloc) ? refuse() : noted(__libc_malloc(size)); }
EXPORT void *calloc(size_t count, size_t size) { return fails(kind_calloc) ? refuse() : noted(__libc_calloc(count, size)); }

EXPORT void *realloc(void *memory, size_t size) {
  if (fails(kind_realloc)) return refuse();
  void *moved = __libc_realloc(memory, size);
  return memory ? moved : noted(moved);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  return fails(kind_aligned) ? refuse() : noted(__libc_memalign(alignment, size));
}

EXPORT int posix_memalign(void **memory, size_t alignment, size_t size) {
  *memory = fails(kind_aligned) ? NULL : noted(__libc_memalign(alignment, size));
  return *memory ? 0 : ENOMEM;
}

EXPORT void free(void *memory) {
  if (memory) atomic_fetch_sub(&book->alive, 1);
  __libc_free(memory);
}

// ---- threads, and signals ---------------------------------------------------------------------------------------------
EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
  return fails(kind_thread) ? EAGAIN : next(thread, attributes, run, argument);
}

// The signal by which system calls come here is never held back.
EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
  int (*next)(int, const sigset_t *, sigset_t *) = dlsym(RTLD_NEXT, "pthread_sigmask");
  sigset_t others;
  if (set) {
    others = *set;
    sigdelset(&others, SIGSYS);
  }
  return next(how, set ? &others : NULL, before);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *before) {
  int error = pthread_sigmask(how, set, before);
  errno = error ? error : errno;
  return error ? -1 : 0;
}

// ---- system calls -----------------------------------------------------------------------------------------------------
// The one place whose system calls the filter lets through.
long world_syscall(long number, long a, long b, long c, long d, long e, long f);
extern const char world_syscall_end[];
#if defined(__x86_64__)
__asm__(
    ".text\n.globl world_syscall\n.hidden world_syscall\n.type world_syscall, @function\nworld_syscall:\n"
    "mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\nmov %r8, %r10\nmov %r9, %r8\nmov 8(%rsp), %r9\nsyscall\n"
    ".globl world_syscall_end\n.hidden world_syscall_end\nworld_syscall_end:\nret\n");
enum { ARCHITECTURE = AUDIT_ARCH_X86_64 };
#define ARGUMENT(context, k) \
  ((long)(context)->uc_mcontext.gregs[(const int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9}[k]])
#define RESULT(context) ((context)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
__asm__(
    ".text\n.globl world_syscall\n.hidden world_syscall\n.type world_syscall, %function\nworld_syscall:\n"
    "mov x8, x0\nmov x0, x1\nmov x1, x2\nmov x2, x3\nmov x3, x4\nmov x4, x5\nmov x5, x6\nsvc #0\n"
    ".globl world_syscall_end\n.hidden world_syscall_end\nworld_syscall_end:\nret\n");
enum { ARCHITECTURE = AUDIT_ARCH_AARCH64 };
#define ARGUMENT(context, k) ((long)(context)->uc_mcontext.regs[k])
#define RESULT(context)      ((context)->uc_mcontext.regs[0])
#else
#error "the failing world knows x86-64 and aarch64"
#endif

static const struct {
  int number;
  Kind kind;
} watched[] = {
#ifdef SYS_open
    {SYS_open, kind_open},        {SYS_rename, kind_rename}, {SYS_link, kind_link},       {SYS_unlink, kind_unlink},
#endif
    {SYS_openat, kind_open},      {SYS_read, kind_read},     {SYS_pread64, kind_read},    {SYS_write, kind_write},
    {SYS_writev, kind_write},     {SYS_fsync, kind_fsync},   {SYS_fdatasync, kind_fsync},
#ifdef SYS_renameat
    {SYS_renameat, kind_rename},
#endif
    {SYS_renameat2, kind_rename}, {SYS_linkat, kind_link},   {SYS_unlinkat, kind_unlink}, {SYS_mmap, kind_mmap},
};
enum { WATCHED = sizeof watched / sizeof *watched };

static Kind kind_of(int number) {
  for (int i = 0; i < WATCHED; i++) {
    if (watched[i].number == number) return watched[i].kind;
  }
  return kind_count;
}

static void on_syscall(int signal, siginfo_t *info, void *where) {
  (void)signal;
  ucontext_t *context = where;
  int number = info->si_syscall, before = errno;
  Kind kind = kind_of(number);
  long a[6];
  for (int k = 0; k < 6; k++) a[k] = ARGUMENT(context, k);

  // What is said on standard error is how one knows of a failure.
  bool told = kind == kind_write && a[0] == STDERR_FILENO;
  bool failed = !told && fails(kind);
  if (failed && plan.how == 0 && number != SYS_writev) a[2] = (a[2] + 1) / 2;

  long done = failed && plan.how ? -plan.how : world_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  RESULT(context) = done;
  errno = before;
}

static void watch_syscalls(void) {
  uint64_t end = (uintptr_t)world_syscall_end;
  struct sock_filter filter[WATCHED + 10];
  int n = 0;
#define ADD(code, k, yes, no) filter[n++] = (struct sock_filter)BPF_JUMP(code, k, yes, no)
#define LOAD(member, more)    ADD(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member) + (more), 0, 0)

  LOAD(instruction_pointer, 0);
  ADD(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)end, 0, 2);
  LOAD(instruction_pointer, 4);
  ADD(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(end >> 32), WATCHED + 1, 0);
  LOAD(nr, 0);
  for (int i = 0; i < WATCHED; i++) ADD(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)watched[i].number, (uint8_t)(WATCHED - i), 0);
  ADD(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
  ADD(BPF_RET | BPF_K, SECCOMP_RET_TRAP, 0, 0);

  struct sigaction action = {.sa_sigaction = on_syscall, .sa_flags = SA_SIGINFO | SA_NODEFER};
  struct sock_fprog program = {(unsigned short)n, filter};
  bool good = sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
              prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  if (good) return;
  static const char text[] = "failing world: this system does not let system calls be watched (seccomp)\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(77);
}

// ---- what a test tells it ---------------------------------------------------------------------------------------------
static Kind kind_named(const char *name) {
  int k = 0;
  while (k < kind_count && strcmp(kind_names[k], name) != 0) k++;
  return (Kind)k;
}

// From now on: calls are counted from zero, and the n-th of a kind fails. NULL: none does.
EXPORT void world_arm(const char *kind, long n, int ever, int how) {
  plan.kind = kind_count;
  for (int k = 0; k < kind_count; k++) book->calls[k] = 0;
  book->fired = 0;
  plan.at = n;
  plan.ever = ever;
  plan.how = how;
  plan.kind = kind ? (int)kind_named(kind) : kind_count;
}

// How often calls were made to fail.
EXPORT long world_disarm(void) {
  plan.kind = kind_count;
  return (long)book->fired;
}

EXPORT long world_calls(const char *kind) { return (long)book->calls[kind_named(kind)]; }
EXPORT long world_alive(void) { return (long)book->alive; }

static int find_library(struct dl_phdr_info *info, size_t size, void *name) {
  (void)size;
  if (!strstr(info->dlpi_name, name)) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
    only.begin = info->dlpi_addr + p->p_vaddr;
    only.end = only.begin + p->p_memsz;
  }
  return 1;
}

// System calls are watched, and calls count while a function of the library is on the stack (NULL: always). 0: there is none.
EXPORT int world_begin(const char *library) {
  if (library && !dl_iterate_phdr(find_library, (void *)library)) return 0;

  // Once beforehand, with what it reads at its first use.
  bool found;
  _Unwind_Backtrace(is_inside, &found);
  only.name = library;
  watch_syscalls();
  return 1;
}

// For a whole process: PB_WORLD=KIND:N:EVER:HOW, and PB_WORLD_BOOK, a file for the book.
__attribute__((constructor)) static void begin_process(void) {
  const char *text = getenv("PB_WORLD"), *path = getenv("PB_WORLD_BOOK");
  char kind[16] = "";
  long n = 0;
  int ever = 0, how = 0;
  if (!path) return;

  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0 || ftruncate(fd, sizeof(Book)) != 0) _exit(78);
  Book *shared = mmap(NULL, sizeof(Book), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (shared == MAP_FAILED) _exit(78);
  close(fd);

  book = shared;
  world_begin(NULL);
  if (text && sscanf(text, "%15[a-z]:%ld:%d:%d", kind, &n, &ever, &how) == 4) world_arm(kind, n, ever, how);
  else world_arm(NULL, 0, 0, 0);
}
