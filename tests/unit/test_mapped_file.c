/* Files that shrink while they are mapped: lost bytes are zeros and an error; other faults are the process's. */
#include "unit/loader_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mapped_file.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1 /* these have a separate handler */
#else
#define SANITIZED 0
#endif

enum { PAGES = 5 };

typedef struct shrinking {
  temp_dir dir;
  char path[128];
  size_t page_bytes;
  yk_mapped_file *file;
} shrinking;

static shrinking open_file(void)
{
  shrinking s = {.dir = temp_dir_make(), .page_bytes = (size_t)sysconf(_SC_PAGESIZE)};
  char *bytes = malloc(PAGES * s.page_bytes);
  yk_err err = YK_ERR_INIT;
  signal(SIGBUS, SIG_DFL); /* cmocka has a handler too */
  memset(bytes, 7, PAGES * s.page_bytes);
  write_file(&s.dir, "x", bytes, PAGES * s.page_bytes - 100);
  free(bytes);
  snprintf(s.path, sizeof s.path, "%s/x", s.dir.path);
  expect_ok("open", yk_mapped_file_open(s.path, &s.file, &err), &err);
  assert_int_equal(yk_mapped_file_size(s.file), PAGES * s.page_bytes - 100);
  return s;
}

static void close_file(shrinking *s)
{
  yk_mapped_file_close(s->file);
  temp_dir_remove(&s->dir);
}

static void lost_bytes_are_zeros_and_an_error(void **state)
{
  (void)state;
  if (SANITIZED) skip();
  shrinking s = open_file(), other = open_file();
  const volatile char *bytes = yk_mapped_file_bytes(s.file);
  yk_err err = YK_ERR_INIT;
  assert_int_equal(bytes[4 * s.page_bytes], 7);
  expect_ok("whole", yk_mapped_file_settle(s.file, YK_OK, &err), &err);
  assert_int_equal(truncate(s.path, (off_t)(2 * s.page_bytes + 10)), 0);
  assert_int_equal(bytes[4 * s.page_bytes + 1], 0);
  assert_int_equal(bytes[3 * s.page_bytes], 0);
  assert_int_equal(bytes[2 * s.page_bytes + 9], 7);
  assert_int_equal(truncate(s.path, (off_t)s.page_bytes), 0);
  assert_int_equal(bytes[s.page_bytes], 0);
  assert_int_equal(bytes[0], 7);
  expect_error("cut", YK_E_IO, "/x: the file was truncated or became unreadable while it was read",
               yk_mapped_file_settle(s.file, YK_E_FORMAT, &err), &err);
  assert_int_equal(truncate(s.path, (off_t)(PAGES * s.page_bytes)), 0); /* it stays lost */
  expect_error("cut", YK_E_IO, "/x: the file was truncated", yk_mapped_file_settle(s.file, YK_OK, &err), &err);
  expect_ok("the other", yk_mapped_file_settle(other.file, YK_OK, &err), &err);
  assert_int_equal(yk_mapped_file_settle(NULL, YK_E_FORMAT, &err), YK_E_FORMAT);
  close_file(&s);
  close_file(&other);
}

/* The kernel reaches the end: a write of the lost bytes fails, and no signal is raised. */
static void a_shorter_file_is_enough(void **state)
{
  (void)state;
  shrinking s = open_file();
  yk_err err = YK_ERR_INIT;
  assert_int_equal(truncate(s.path, 5), 0);
  expect_error("cut", YK_E_IO, "/x: the file was truncated", yk_mapped_file_settle(s.file, YK_OK, &err), &err);
  close_file(&s);
}

/* A map of the program itself next to one of the library. */
static void read_own_map(const shrinking *s)
{
  int fd = open(s->path, O_RDWR);
  const volatile char *map = mmap(NULL, s->page_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED || ftruncate(fd, 0) != 0) _exit(1);
  _exit(map[0]);
}

static void raise_it(const shrinking *s)
{
  (void)s;
  raise(SIGBUS);
  _exit(1);
}

static void has_ended(int number)
{
  _exit(number == SIGBUS ? 42 : 1);
}

static int status_of_child(void (*act)(const shrinking *), const shrinking *s, void (*handler)(int))
{
  int status;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit none = {0};
    yk_mapped_file *file;
    yk_err err = YK_ERR_INIT;
    setrlimit(RLIMIT_CORE, &none);
    if (handler) signal(SIGBUS, handler);
    if (yk_mapped_file_open(s->path, &file, &err) != YK_OK) _exit(1);
    act(s);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void other_faults_are_the_programs(void **state)
{
  (void)state;
  if (SANITIZED) skip();
  void (*const acts[])(const shrinking *) = {read_own_map, raise_it};
  for (int i = 0; i < 2; i++) {
    shrinking s = open_file();
    int status = status_of_child(acts[i], &s, SIG_DFL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    close_file(&s);
    s = open_file();
    status = status_of_child(acts[i], &s, has_ended);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    close_file(&s);
  }
}

static void empty_files_have_bytes(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  char path[128];
  yk_mapped_file *file;
  yk_err err = YK_ERR_INIT;
  write_text(&dir, "empty", "");
  snprintf(path, sizeof path, "%s/empty", dir.path);
  expect_ok("empty", yk_mapped_file_open(path, &file, &err), &err);
  assert_int_equal(yk_mapped_file_size(file), 0);
  expect_ok("empty", yk_mapped_file_settle(file, YK_OK, &err), &err);
  yk_mapped_file_close(file);
  expect_error("a directory", YK_E_IO, "expected a regular file", yk_mapped_file_open(dir.path, &file, &err), &err);
  temp_dir_remove(&dir);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lost_bytes_are_zeros_and_an_error), cmocka_unit_test(a_shorter_file_is_enough),
      cmocka_unit_test(other_faults_are_the_programs), cmocka_unit_test(empty_files_have_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
