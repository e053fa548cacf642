/* The guard of requests: accepted bytes do not depend on how input is split, and have one canonical form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/request_guard.h"

/* Feeds the bytes in pieces; returns the accepted bytes, to be freed. *n_taken: bytes consumed. */
static yk_strbuf take(yk_request_guard *guard, const char *bytes, size_t n_bytes, size_t piece_bytes, size_t *n_taken)
{
  yk_strbuf out = YK_STRBUF_INIT;
  yk_strbuf_append(&out, "", 0);
  *n_taken = 0;
  while (*n_taken < n_bytes) {
    size_t left = n_bytes - *n_taken, n = left < piece_bytes ? left : piece_bytes;
    size_t n_now = yk_request_guard_take(guard, bytes + *n_taken, n, &out);
    *n_taken += n_now;
    if (n_now < n) break;
  }
  return out;
}

/* One request passes as expected, and no byte after it is consumed. */
static void check_passes(const char *request, const char *expected)
{
  size_t n_bytes = strlen(request), n_taken;
  yk_strbuf both = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&both, "%sGET / HTTP/1.1\r\n", request);
  for (size_t piece_bytes = 1; piece_bytes <= both.length; piece_bytes++) {
    yk_request_guard guard = {0};
    yk_strbuf out = take(&guard, both.data, both.length, piece_bytes, &n_taken);
    if (guard.state != YK_GUARD_DONE) fail_msg("%s: %s", request, guard.refusal.why);
    assert_string_equal(out.data, expected);
    assert_int_equal(n_taken, n_bytes);
    yk_strbuf_free(&out);
    yk_request_guard_free(&guard);
  }
  yk_strbuf_free(&both);
}

static void test_passes(void **state)
{
  (void)state;
  check_passes("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  check_passes("\r\n\r\nGET /a?b=c HTTP/1.0\r\nX:\t a b \t\r\nY:\r\n\r\n",
               "GET /a?b=c HTTP/1.0\r\nX: a b\r\nY: \r\n\r\n");
  check_passes("GET http://b:1/a?c HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n",
               "GET /a?c HTTP/1.1\r\nHost: b:1\r\nX: y\r\n\r\n");
  check_passes("GET http://b?c HTTP/1.1\r\nHost: a\r\n\r\n", "GET /?c HTTP/1.1\r\nHost: b\r\n\r\n");
  check_passes("POST / HTTP/1.1\r\nhost: a\r\nContent-Length: 3\r\n\r\n\n\r ",
               "POST / HTTP/1.1\r\nhost: a\r\nContent-Length: 3\r\n\r\n\n\r ");
  check_passes(
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n0A;x=y\r\n0123456789\r\n2 ;z\r\n\r\n\r\n0\r\n"
      "T: 1\r\nU:\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\na\r\n0123456789\r\n2\r\n\r\n\r\n0\r\n\r\n");
}

static void check_refused(const char *bytes, size_t n_bytes, int http_status)
{
  size_t n_taken, n_whole = 0;
  for (size_t piece_bytes = n_bytes; piece_bytes > 0; piece_bytes--) {
    yk_request_guard guard = {0};
    yk_strbuf out = take(&guard, bytes, n_bytes, piece_bytes, &n_taken);
    if (guard.state != YK_GUARD_REFUSED || guard.refusal.http_status != http_status)
      fail_msg("%s: state %d, status %d", bytes, (int)guard.state, guard.refusal.http_status);
    if (piece_bytes == n_bytes) n_whole = n_taken;
    assert_int_equal(n_taken, n_whole);
    assert_int_equal(yk_request_guard_take(&guard, "x", 1, &out), 0);
    yk_strbuf_free(&out);
    yk_request_guard_free(&guard);
  }
}

#define REFUSED(text, http_status) check_refused(text, sizeof(text) - 1, http_status)

static void test_refused(void **state)
{
  (void)state;
  REFUSED("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400);
  REFUSED("GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 44\r\n\r\n", 400);
  REFUSED("GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 400);
  REFUSED("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400);
  REFUSED("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400);
  REFUSED("GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
  REFUSED("GET / HTTP/1.1\r\n\r\n", 400);
  REFUSED("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505);
  REFUSED("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n", 501);
  REFUSED("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
  REFUSED("GET / HTTP/1.1\r\nHost: a\r\nContent-Lengthy: 1\r\n\r\n", 400);
  REFUSED("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: b\r\nAuthorization: c\r\n\r\n", 400);
  REFUSED("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
  REFUSED("GET http://b@c/ HTTP/1.1\r\nHost: a\r\n\r\n", 400);
  REFUSED("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400);
  REFUSED("GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
  REFUSED("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nno colon\r\n", 400);
  REFUSED("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n", 400);
  REFUSED("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n", 400);
}

/* A request with n copies of a part between a beginning and an end. */
static void check_many(const char *begin, const char *part, int n, const char *end, int http_status)
{
  size_t n_taken;
  yk_strbuf text = YK_STRBUF_INIT;
  yk_request_guard guard = {0};
  yk_strbuf_append_str(&text, begin);
  for (int i = 0; i < n; i++) yk_strbuf_append_str(&text, part);
  yk_strbuf_append_str(&text, end);
  yk_strbuf out = take(&guard, text.data, text.length, text.length, &n_taken);
  assert_int_equal(guard.state, http_status ? YK_GUARD_REFUSED : YK_GUARD_DONE);
  assert_int_equal(guard.refusal.http_status, http_status);
  yk_strbuf_free(&out);
  yk_strbuf_free(&text);
  yk_request_guard_free(&guard);
}

/* The largest accepted number of everything that is counted, and one more. */
static void test_limits(void **state)
{
  (void)state;
  static const char head[] = " HTTP/1.1\r\nHost: a\r\n\r\n", line[] = "GET / HTTP/1.1\r\nHost: a\r\n";
  static const char chunked[] = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  static const char length[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ";
  char trailers[sizeof chunked + 8], extension[sizeof chunked + 8];
  snprintf(trailers, sizeof trailers, "%s0\r\n", chunked);
  snprintf(extension, sizeof extension, "%s0;", chunked);
  check_many("GET /", "a", YK_GUARD_TARGET_BYTES - 1, head, 0);
  check_many("GET /", "a", YK_GUARD_TARGET_BYTES, head, 414);
  check_many("GET /", "a", 2 * YK_GUARD_TARGET_BYTES, "", 414);
  check_many("GET /?a", "&a", YK_GUARD_ARGUMENTS - 1, head, 0);
  check_many("GET /?a", "&a", YK_GUARD_ARGUMENTS, head, 414);
  check_many(line, "A: b\r\n", YK_GUARD_HEADERS - 1, "\r\n", 0);
  check_many(line, "A: b\r\n", YK_GUARD_HEADERS, "\r\n", 431);
  check_many(line, "A: 345678901234567890123456789012345678901234567890123456789012\r\n", 512, "", 431);
  check_many(trailers, "T: 4\r\n", 1365, "\r\n", 0);
  check_many(trailers, "T: 4\r\n", 1366, "\r\n", 431);
  check_many(extension, "a", 252, "\r\n\r\n", 0);
  check_many(extension, "a", 253, "\r\n\r\n", 400);
  check_many(chunked, "0", 15, "\r\n\r\n", 0);
  check_many(chunked, "0", 16, "\r\n\r\n", 400);
  check_many(length, "0", 18, "\r\n\r\n", 0);
  check_many(length, "0", 19, "\r\n\r\n", 400);
}

/* Consecutive requests. */
static void test_next(void **state)
{
  (void)state;
  static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  yk_request_guard guard = {0};
  yk_strbuf out = YK_STRBUF_INIT;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(yk_request_guard_take(&guard, request, strlen(request), &out), strlen(request));
    assert_int_equal(guard.state, YK_GUARD_DONE);
    assert_string_equal(guard.method, "GET");
    assert_string_equal(guard.path, "/");
    assert_int_equal(yk_request_guard_take(&guard, request, strlen(request), &out), 0);
    yk_request_guard_next(&guard);
  }
  assert_int_equal(out.length, 3 * strlen(request));
  yk_strbuf_free(&out);
  yk_request_guard_free(&guard);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_passes), cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_limits), cmocka_unit_test(test_next)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
