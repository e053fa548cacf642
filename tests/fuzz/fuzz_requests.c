/* Any bytes are requests that pass the guard, or are refused with an answer. The first byte selects how the bytes are
 * split, which changes nothing. Accepted bytes pass again, unchanged. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/request_guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool condition)
{
  if (!condition) abort();
}

/* Processes all consecutive requests; returns the guard's last state. */
static yk_guard_state pass(const char *bytes, size_t n_bytes, size_t piece_bytes, yk_strbuf *out)
{
  yk_request_guard guard = {0};
  size_t at = 0;
  while (at < n_bytes && guard.state != YK_GUARD_REFUSED) {
    size_t n = n_bytes - at < piece_bytes ? n_bytes - at : piece_bytes;
    at += yk_request_guard_take(&guard, bytes + at, n, out);
    if (guard.state == YK_GUARD_DONE) yk_request_guard_next(&guard);
  }
  yk_guard_state state = guard.state;
  require(state != YK_GUARD_REFUSED || (guard.refusal.http_status >= 400 && guard.refusal.body.length > 0));
  require(!out->failed);
  yk_request_guard_free(&guard);
  return state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
  if (n_bytes == 0) return 0;
  yk_strbuf whole = YK_STRBUF_INIT, pieces = YK_STRBUF_INIT, again = YK_STRBUF_INIT;
  const char *bytes = (const char *)data + 1;
  yk_guard_state state = pass(bytes, n_bytes - 1, n_bytes, &whole);
  require(pass(bytes, n_bytes - 1, 1 + (size_t)data[0] % 16, &pieces) == state);
  require(whole.length == pieces.length && (whole.length == 0 || memcmp(whole.data, pieces.data, whole.length) == 0));
  require(pass(whole.data, whole.length, n_bytes, &again) != YK_GUARD_REFUSED);
  if (state == YK_GUARD_HEAD)
    require(whole.length == again.length && (whole.length == 0 || memcmp(whole.data, again.data, whole.length) == 0));
  yk_strbuf_free(&whole);
  yk_strbuf_free(&pieces);
  yk_strbuf_free(&again);
  return 0;
}
