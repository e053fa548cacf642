/* Regular files are read; anything else is named, and nothing waits for it. */
#include "unit/loader_fixture.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/file.h"

enum { LIMIT_S = 20 }; /* of the whole test: waiting for a pipe would end it */

static yk_status read_path(const temp_dir *dir, const char *name, char **text, size_t *n_bytes, yk_err *err)
{
  char path[128];
  snprintf(path, sizeof path, "%s/%s", dir->path, name);
  return yk_file_read(path, 10, text, n_bytes, err);
}

static void whole_files(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  char *text;
  size_t n_bytes;
  write_file(&dir, "some", "a\0b", 3);
  expect_ok("some", read_path(&dir, "some", &text, &n_bytes, &err), &err);
  assert_int_equal(n_bytes, 3);
  assert_memory_equal(text, "a\0b", 4);
  free(text);
  write_text(&dir, "empty", "");
  expect_ok("empty", read_path(&dir, "empty", &text, NULL, &err), &err);
  assert_string_equal(text, "");
  free(text);
  write_text(&dir, "long", "0123456789a");
  expect_error("long", YK_E_FORMAT, "/long: 11 bytes, at most 10", read_path(&dir, "long", &text, NULL, &err), &err);
  expect_error("absent", YK_E_IO, "/absent: No such file", read_path(&dir, "absent", &text, NULL, &err), &err);
  temp_dir_remove(&dir);
}

static void a_pointer_of_git_lfs_is_named(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  char path[128], *text;
  yk_err err = YK_ERR_INIT;
  write_text(&dir, "tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
  snprintf(path, sizeof path, "%s/tokenizer.json", dir.path);
  expect_error("pointer", YK_E_FORMAT, "/tokenizer.json: a Git LFS pointer instead of the file: run git lfs pull",
               yk_file_read(path, 1000, &text, NULL, &err), &err);
  temp_dir_remove(&dir);
}

static void other_kinds_are_named(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  char path[128], *text;
  snprintf(path, sizeof path, "%s/pipe", dir.path);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_error("pipe", YK_E_IO, "/pipe: expected a regular file, found a named pipe",
               read_path(&dir, "pipe", &text, NULL, &err), &err);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", dir.path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
  expect_error("socket", YK_E_IO, "/socket: expected a regular file, found a socket",
               read_path(&dir, "socket", &text, NULL, &err), &err);
  close(fd);
  snprintf(path, sizeof path, "%s/link", dir.path);
  assert_int_equal(symlink("/dev/zero", path), 0);
  expect_error("device", YK_E_IO, "/link: expected a regular file, found a device",
               read_path(&dir, "link", &text, NULL, &err), &err);
  temp_dir_remove(&dir);
  expect_error("directory", YK_E_IO, "/tmp: expected a regular file, found a directory",
               yk_file_read("/tmp", 10, &text, NULL, &err), &err);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(whole_files), cmocka_unit_test(a_pointer_of_git_lfs_is_named),
                                     cmocka_unit_test(other_kinds_are_named)};
  alarm(LIMIT_S);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
