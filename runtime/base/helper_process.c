#define _GNU_SOURCE /* asprintf, posix_spawn_file_actions_addclosefrom_np */
#include "base/helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* The module of base/helper, which every program has. */
extern const yk_embedded_file yk_base_helper_files[];
static const char FILTER[] = "syscall_filter";

static char *text_of(const yk_embedded_file *files, const char *module)
{
  char path[64];
  snprintf(path, sizeof path, "/%s.py", module);
  return (char *)(uintptr_t)yk_embedded_find(files, path)->bytes;
}

/* Arguments: memory limit, time limit, the program's argument, then name and text of each module. */
static const char BOOT[] = "import sys, types\n"
                           "for name, text in zip(sys.argv[4::2], sys.argv[5::2]):\n"
                           "    module = sys.modules[name] = types.ModuleType(name)\n"
                           "    exec(compile(text, name, 'exec'), module.__dict__)\n"
                           "module.main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])\n";

/* Default signal handling, and a separate process group, so that a terminal's Ctrl-C does not reach the process. */
static int set_attributes(posix_spawnattr_t *attributes)
{
  sigset_t none, standard;
  sigemptyset(&none);
  sigfillset(&standard);
  int failed = posix_spawnattr_setsigmask(attributes, &none);
  if (!failed) failed = posix_spawnattr_setsigdefault(attributes, &standard);
  if (!failed) failed = posix_spawnattr_setpgroup(attributes, 0);
  if (!failed)
    failed =
        posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  return failed;
}

static int set_descriptors(posix_spawn_file_actions_t *actions, int connection)
{
  int failed = posix_spawn_file_actions_adddup2(actions, connection, 0);
  if (!failed) failed = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
  if (!failed) failed = posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0);
  if (!failed) failed = posix_spawn_file_actions_addclosefrom_np(actions, 3);
  return failed;
}

/* Returns 0 or an errno. */
static int spawn(const char *python, char *const *arguments, char *const *environment, int connection, pid_t *pid)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int failed = posix_spawn_file_actions_init(&actions);
  if (failed) return failed;
  failed = posix_spawnattr_init(&attributes);
  if (!failed) {
    failed = set_descriptors(&actions, connection);
    if (!failed) failed = set_attributes(&attributes);
    if (!failed) failed = posix_spawnp(pid, python, &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return failed;
}

/* A variable of the environment as "NAME=value", or NULL. */
static char *environment_entry(const char *name)
{
  char *entry = NULL;
  const char *value = getenv(name);
  return value && asprintf(&entry, "%s=%s", name, value) > 0 ? entry : NULL;
}

static int spawn_scripts(const char *python, const yk_helper_program *program, int64_t memory_limit_bytes,
                         double time_limit_s, int connection, pid_t *pid)
{
  char memory[32], seconds[32];
  snprintf(memory, sizeof memory, "%lld", (long long)memory_limit_bytes);
  snprintf(seconds, sizeof seconds, "%.3f", time_limit_s);
  char *arguments[10 + 2 * YK_HELPER_MAX_MODULES + 1] = {(char *)python, "-I",
                                                         "-B",           "-c",
                                                         (char *)BOOT,   memory,
                                                         seconds,        (char *)program->argument,
                                                         (char *)FILTER, text_of(yk_base_helper_files, FILTER)};
  for (size_t i = 0; i < program->n_modules; i++) {
    arguments[10 + 2 * i] = (char *)program->modules[i];
    arguments[11 + 2 * i] = text_of(program->files, program->modules[i]);
  }
  char *zone = environment_entry("TZ"), *path = environment_entry("PATH");
  char *environment[4] = {"LC_ALL=C.UTF-8"}, **next = environment + 1;
  if (zone) *next++ = zone;
  if (path) *next = path;
  int failed = spawn(python, arguments, environment, connection, pid);
  free(zone);
  free(path);
  return failed;
}

yk_status yk_helper_start(const char *python, const yk_helper_program *program, int64_t memory_limit_bytes,
                          double time_limit_s, yk_helper_process *helper, yk_err *err)
{
  int ends[2];
  *helper = (yk_helper_process){0};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return yk_err_set(err, YK_E_IO, "no connection to a helper process: %s", strerror(errno));
  int failed = fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? errno : 0;
  if (!failed) failed = spawn_scripts(python, program, memory_limit_bytes, time_limit_s, ends[1], &helper->pid);
  close(ends[1]);
  if (!failed) {
    helper->fd = ends[0];
    return YK_OK;
  }
  close(ends[0]);
  *helper = (yk_helper_process){0};
  bool missing = failed == ENOENT || failed == EACCES || failed == ENOTDIR;
  return yk_err_set(err, missing ? YK_E_UNSUPPORTED : YK_E_IO, "program %.80s: %s", python, strerror(failed));
}

void yk_helper_end(yk_helper_process *helper)
{
  if (helper->pid == 0) return;
  close(helper->fd);
  kill(helper->pid, SIGKILL);
  while (waitpid(helper->pid, NULL, 0) < 0 && errno == EINTR) continue;
  *helper = (yk_helper_process){0};
}

bool yk_helper_is_alive(const yk_helper_process *helper)
{
  struct pollfd ready = {.fd = helper->fd, .events = POLLIN}; /* it writes only answers */
  return helper->pid != 0 && poll(&ready, 1, 0) == 0;
}

/* Waits until the descriptor can be read or written. */
static yk_status wait_for(const yk_helper_process *helper, short events, int64_t deadline_ns, yk_err *err)
{
  for (;;) {
    int64_t left_ns = deadline_ns - yk_clock_now_ns();
    if (left_ns <= 0) return yk_err_set(err, YK_E_TIMEOUT, "the time limit has passed");
    struct pollfd ready = {.fd = helper->fd, .events = events};
    int n = poll(&ready, 1, (int)(left_ns / 1000000 + 1));
    if (n > 0) return YK_OK;
    if (n < 0 && errno != EINTR) return yk_err_set(err, YK_E_IO, "poll: %s", strerror(errno));
  }
}

static yk_status died(yk_err *err)
{
  return yk_err_set(err, YK_E_IO, "the helper process has died");
}

static yk_status send_all(const yk_helper_process *helper, const char *bytes, size_t n, int64_t deadline_ns,
                          yk_err *err)
{
  while (n > 0) {
    YK_TRY(wait_for(helper, POLLOUT, deadline_ns, err));
    ssize_t sent = send(helper->fd, bytes, n, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) return died(err);
    bytes += sent;
    n -= (size_t)sent;
  }
  return YK_OK;
}

static yk_status receive_all(const yk_helper_process *helper, char *bytes, size_t n, int64_t deadline_ns, yk_err *err)
{
  while (n > 0) {
    YK_TRY(wait_for(helper, POLLIN, deadline_ns, err));
    ssize_t received = recv(helper->fd, bytes, n, 0);
    if (received < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (received <= 0) return died(err);
    bytes += received;
    n -= (size_t)received;
  }
  return YK_OK;
}

static yk_status receive_answer(const yk_helper_process *helper, int64_t deadline_ns, yk_json_doc **answer, yk_err *err)
{
  unsigned char length[4];
  YK_TRY(receive_all(helper, (char *)length, sizeof length, deadline_ns, err));
  size_t n_bytes = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
  if (n_bytes > YK_HELPER_MAX_FRAME_BYTES)
    return yk_err_set(err, YK_E_CAPACITY, "an answer of %zu bytes, expected at most %d", n_bytes,
                      YK_HELPER_MAX_FRAME_BYTES);
  char *text = malloc(n_bytes + 1);
  if (!text) return yk_err_set(err, YK_E_NOMEM, "no memory for an answer of %zu bytes", n_bytes);
  yk_status status = receive_all(helper, text, n_bytes, deadline_ns, err);
  if (status == YK_OK) status = yk_json_parse("helper's answer", text, n_bytes, NULL, answer, err);
  free(text);
  return status;
}

yk_status yk_helper_call(yk_helper_process *helper, const char *request, size_t n_bytes, double time_limit_s,
                         yk_json_doc **answer, yk_err *err)
{
  if (n_bytes > YK_HELPER_MAX_FRAME_BYTES)
    return yk_err_set(err, YK_E_CAPACITY, "a request of %zu bytes, expected at most %d", n_bytes,
                      YK_HELPER_MAX_FRAME_BYTES);
  int64_t deadline_ns = yk_clock_now_ns() + (int64_t)(time_limit_s * 1e9);
  char length[4] = {(char)n_bytes, (char)(n_bytes >> 8), (char)(n_bytes >> 16), (char)(n_bytes >> 24)};
  yk_status status = send_all(helper, length, sizeof length, deadline_ns, err);
  if (status == YK_OK) status = send_all(helper, request, n_bytes, deadline_ns, err);
  if (status == YK_OK) status = receive_answer(helper, deadline_ns, answer, err);
  if (status == YK_OK && !yk_json_is(yk_json_root(*answer), YK_JSON_OBJECT)) {
    yk_json_free(*answer);
    status = yk_err_set(err, YK_E_INTERNAL, "helper's answer: expected an object");
  }
  if (status != YK_OK) yk_helper_end(helper);
  return status;
}
