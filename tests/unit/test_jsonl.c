/* Lines from a stream cut in any way, in bounded memory; whole lines into a file. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/jsonl.h"
#include "each_case.h"

/* A temporary file that holds text, at its start. */
static int file_of(const char *text, size_t n_bytes)
{
  char path[] = "/tmp/yoke-jsonl-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  unlink(path);
  assert_int_equal(write(fd, text, n_bytes), (ssize_t)n_bytes);
  lseek(fd, 0, SEEK_SET);
  return fd;
}

static yk_jsonl_event next(yk_jsonl_reader *reader, int timeout_ms, yk_jsonl_line *line)
{
  yk_err err = YK_ERR_INIT;
  yk_jsonl_event event;
  assert_int_equal(yk_jsonl_read(reader, timeout_ms, &event, line, &err), YK_OK);
  return event;
}

static void expect_line(yk_jsonl_reader *reader, const char *text, bool too_long, bool is_torn)
{
  yk_jsonl_line line;
  int64_t before = reader->n_lines;
  assert_int_equal(next(reader, -1, &line), YK_JSONL_LINE);
  assert_int_equal(line.n_bytes, strlen(text));
  assert_memory_equal(line.text, text, line.n_bytes);
  assert_int_equal(line.number, before + 1);
  assert_int_equal(line.too_long, too_long);
  assert_int_equal(line.is_torn, is_torn);
}

static void test_lines(void **state)
{
  (void)state;
  static const char text[] = "one\n\n  two \r\nthree";
  int fd = file_of(text, sizeof text - 1);
  yk_jsonl_reader reader;
  yk_jsonl_line line;
  yk_jsonl_reader_init(&reader, fd, "file", 100);
  expect_line(&reader, "one", false, false);
  assert_int_equal(reader.position, 4);
  expect_line(&reader, "", false, false);
  expect_line(&reader, "  two \r", false, false);
  assert_int_equal(reader.position, 13);
  expect_line(&reader, "three", false, true);
  assert_int_equal(reader.position, 18);
  assert_int_equal(next(&reader, -1, &line), YK_JSONL_END);
  assert_int_equal(next(&reader, 0, &line), YK_JSONL_END);
  yk_jsonl_reader_free(&reader);
  close(fd);
}

/* Bytes that arrive one by one, with pauses. */
static void test_pipe(void **state)
{
  (void)state;
  static const char text[] = "{\"a\": 1}\nb\n";
  int ends[2];
  yk_jsonl_reader reader;
  yk_jsonl_line line;
  assert_int_equal(pipe(ends), 0);
  yk_jsonl_reader_init(&reader, ends[0], "pipe", 100);
  assert_int_equal(next(&reader, 0, &line), YK_JSONL_WAIT);
  for (size_t i = 0; i < sizeof text - 1; i++) {
    assert_int_equal(write(ends[1], &text[i], 1), 1);
    if (text[i] != '\n') assert_int_equal(next(&reader, 1, &line), YK_JSONL_WAIT);
    if (text[i] == '\n') expect_line(&reader, i == 8 ? "{\"a\": 1}" : "b", false, false);
  }
  assert_int_equal(write(ends[1], "end", 3), 3);
  assert_int_equal(next(&reader, 1, &line), YK_JSONL_WAIT);
  close(ends[1]);
  expect_line(&reader, "end", false, true);
  assert_int_equal(next(&reader, -1, &line), YK_JSONL_END);
  yk_jsonl_reader_free(&reader);
  close(ends[0]);
}

/* Lines around the limit, and one far longer than all buffers. */
static void test_long_lines(void **state)
{
  (void)state;
  enum { LIMIT = 10, HUGE_BYTES = 20 << 20 };
  size_t n = 0;
  char *text = malloc(HUGE_BYTES + 100);
  assert_non_null(text);
  n += (size_t)sprintf(text, "0123456789\n0123456789a\n");
  memset(text + n, 'x', HUGE_BYTES);
  n += HUGE_BYTES;
  n += (size_t)sprintf(text + n, "\nshort\n0123456789abc");
  int fd = file_of(text, n);
  yk_jsonl_reader reader;
  yk_jsonl_line line;
  yk_jsonl_reader_init(&reader, fd, "file", LIMIT);
  expect_line(&reader, "0123456789", false, false);
  expect_line(&reader, "0123456789", true, false);
  expect_line(&reader, "xxxxxxxxxx", true, false);
  assert_true(reader.capacity < 1 << 20);
  assert_int_equal(reader.position, 23 + HUGE_BYTES + 1);
  expect_line(&reader, "short", false, false);
  expect_line(&reader, "0123456789", true, true);
  assert_int_equal(reader.position, n);
  assert_int_equal(next(&reader, -1, &line), YK_JSONL_END);
  yk_jsonl_reader_free(&reader);
  close(fd);
  free(text);
}

/* A line of many reads is returned whole. */
static void test_a_line_of_many_reads(void **state)
{
  (void)state;
  enum { N = 3 << 20 };
  char *text = malloc(N + 8);
  assert_non_null(text);
  for (size_t i = 0; i < N; i++) text[i] = (char)('a' + i % 23);
  memcpy(text + N, "\nnext\n", 7);
  int fd = file_of(text, N + 6);
  yk_jsonl_reader reader;
  yk_jsonl_line line;
  yk_jsonl_reader_init(&reader, fd, "file", N);
  assert_int_equal(next(&reader, -1, &line), YK_JSONL_LINE);
  assert_int_equal(line.n_bytes, N);
  assert_false(line.too_long);
  assert_memory_equal(line.text, text, N);
  expect_line(&reader, "next", false, false);
  yk_jsonl_reader_free(&reader);
  close(fd);
  free(text);
}

static void test_errors(void **state)
{
  (void)state;
  yk_err err = YK_ERR_INIT;
  yk_jsonl_reader reader;
  yk_jsonl_event event;
  yk_jsonl_line line;
  yk_jsonl_reader_init(&reader, -1, "gone", 100);
  reader.fd = 1 << 20;
  assert_int_equal(yk_jsonl_read(&reader, -1, &event, &line, &err), YK_E_IO);
  assert_non_null(strstr(err.message, "gone"));
  yk_jsonl_reader_free(&reader);
  yk_jsonl_writer writer;
  yk_err_clear(&err);
  yk_jsonl_writer_init(&writer, 1 << 20, "gone too");
  assert_int_equal(yk_jsonl_write(&writer, "x\n", 2, &err), YK_E_IO);
  assert_non_null(strstr(err.message, "gone too"));
}

static bool begins_with_a(const char *text, size_t n_bytes)
{
  return n_bytes == 0 || text[0] == 'a';
}

static yk_status collect(void *user, const yk_jsonl_line *line, yk_err *err)
{
  char *all = user;
  if (line->text[0] != 'a') return yk_err_set(err, YK_E_FORMAT, "not of this file");
  strncat(all, line->text, line->n_bytes);
  strcat(all, ";");
  return YK_OK;
}

/* A part of the last line that a crash may leave is skipped; anything else is an error. */
static void test_stored(void **state)
{
  (void)state;
#define TEXT(text) text, sizeof text - 1
  static const struct {
    const char *text;
    size_t n_bytes;
    const char *taken; /* NULL: an error */
    int64_t whole_bytes;
    const char *message;
  } cases[] = {
      {TEXT(""), "", 0, NULL},
      {TEXT("a1\na2\n"), "a1;a2;", 6, NULL},
      {TEXT("a1\n \n\na2\n\n"), "a1;a2;", 9, NULL},
      {TEXT("a1\na2"), "a1;", 3, NULL},
      {TEXT("a1\na2\0\0\0"), "a1;", 3, NULL},
      {TEXT("a1\n\0\0\0"), "a1;", 3, NULL},
      {TEXT("a1\na2\0\0\n"), "a1;", 3, NULL},
      {TEXT("a1\na2\0\n\0\0"), "a1;", 3, NULL},
      {TEXT("a1\na2\0\na3\n"), NULL, 0, "file: line 3: follows a line that ends in bytes of zero"},
      {TEXT("a1\na2\0x\n"), NULL, 0, "file: line 2: not the beginning"},
      {TEXT("a1\nb"), NULL, 0, "file: line 2: not the beginning"},
      {TEXT("a1\n\nb\n"), NULL, 0, "file: line 3: not of this file"},
  };
#undef TEXT
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    char taken[64] = "";
    int64_t whole_bytes = -1;
    yk_err err = YK_ERR_INIT;
    yk_jsonl_stored stored = {.max_line_bytes = 100, .begins = begins_with_a, .take = collect, .user = taken};
    int fd = file_of(cases[i].text, cases[i].n_bytes);
    yk_status status = yk_jsonl_read_stored(fd, "file", &stored, &whole_bytes, &err);
    close(fd);
    if (cases[i].taken) {
      assert_int_equal(status, YK_OK);
      assert_string_equal(taken, cases[i].taken);
      assert_int_equal(whole_bytes, cases[i].whole_bytes);
      continue;
    }
    assert_int_equal(status, YK_E_FORMAT);
    assert_ptr_equal(strstr(err.message, cases[i].message), err.message);
  }
  yk_err err = YK_ERR_INIT;
  int64_t whole_bytes;
  char taken[64] = "";
  int fd = file_of("b\n", 2);
  yk_jsonl_stored stored = {"no file of ours", 100, begins_with_a, collect, taken};
  assert_int_equal(yk_jsonl_read_stored(fd, "file", &stored, &whole_bytes, &err), YK_E_FORMAT);
  assert_string_equal(err.message, "file: no file of ours: line 1: not of this file");
  close(fd);
  yk_err_clear(&err);
  fd = open("/tmp", O_RDONLY | O_DIRECTORY);
  assert_int_equal(yk_jsonl_read_stored(fd, "file", &stored, &whole_bytes, &err), YK_E_IO);
  assert_ptr_equal(strstr(err.message, "file: Is a directory"), err.message);
  close(fd);
}

static void test_small_things(void **state)
{
  (void)state;
  assert_true(yk_jsonl_is_blank("", 0));
  assert_true(yk_jsonl_is_blank(" \t\r\n", 4));
  assert_false(yk_jsonl_is_blank(" \v", 2));
  assert_false(yk_jsonl_is_blank("\0", 1));
  assert_int_equal(yk_hash(YK_HASH_START, "", 0), 0x811c9dc5); /* published values of FNV-1a */
  assert_int_equal(yk_hash(YK_HASH_START, "a", 1), 0xe40c292c);
  assert_int_equal(yk_hash(YK_HASH_START, "foobar", 6), 0xbf9cf968);
  assert_int_equal(yk_hash(yk_hash(YK_HASH_START, "foo", 3), "bar", 3), 0xbf9cf968);
}

static void test_writer(void **state)
{
  (void)state;
  yk_err err = YK_ERR_INIT;
  yk_jsonl_writer writer;
  char back[16] = "";
  int fd = file_of("", 0);
  yk_jsonl_writer_init(&writer, fd, "file");
  assert_true(writer.is_file);
  assert_int_equal(yk_jsonl_write(&writer, "one\n", 4, &err), YK_OK);
  assert_int_equal(yk_jsonl_sync(&writer, 1000, &err), YK_OK);
  assert_true(writer.is_dirty); /* too early */
  assert_int_equal(yk_jsonl_sync(&writer, 0, &err), YK_OK);
  assert_false(writer.is_dirty);
  assert_int_equal(pread(fd, back, sizeof back, 0), 4);
  assert_string_equal(back, "one\n");
  close(fd);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),      cmocka_unit_test(test_pipe),
      cmocka_unit_test(test_long_lines), cmocka_unit_test(test_a_line_of_many_reads),
      cmocka_unit_test(test_errors),     cmocka_unit_test(test_small_things),
      cmocka_unit_test(test_writer),     cmocka_unit_test(test_stored),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
