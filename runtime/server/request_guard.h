/* request_guard.h - the bytes of requests are checked before libmicrohttpd reads them.
 *
 * libmicrohttpd joins folded header lines to the name before, takes a carriage return alone for the end of a line and
 * NULs for the end of a text. A proxy that reads such a request otherwise sees another sequence of requests than we do.
 * So everything that leaves doubt about where a request ends or whom it is for is refused, as RFC 9110 (5.5, 8.6) and
 * RFC 9112 (2.2, 3.2, 5.1, 5.2, 6.1, 6.3, 7.1) want or allow, and its connection closed. What passes is written anew,
 * so that nobody can read it in two ways: one line a header, chunks without extensions and trailers, the target's path
 * alone, with its authority as Host where it has one. */
#ifndef YK_SERVER_REQUEST_GUARD_H
#define YK_SERVER_REQUEST_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "server/reply.h"

enum {
  YK_GUARD_PATH_BYTES = 128,
  YK_GUARD_TARGET_BYTES = 8 << 10, /* of a target, else 414 */
  YK_GUARD_ARGUMENTS = 256,        /* in its query, else 414: each takes libmicrohttpd more room than it has bytes */
  YK_GUARD_HEAD_BYTES = 32 << 10,  /* of request line and headers, else 431 */
  YK_GUARD_HEADERS = 128           /* else 431 */
};

typedef enum yk_guard_state {
  YK_GUARD_HEAD,
  YK_GUARD_BODY,       /* its length stands in the head */
  YK_GUARD_CHUNK_SIZE, /* the line before a chunk */
  YK_GUARD_CHUNK,
  YK_GUARD_CHUNK_END, /* the line end behind it */
  YK_GUARD_TRAILER,   /* lines behind the last chunk */
  YK_GUARD_DONE,      /* the request has passed as a whole */
  YK_GUARD_REFUSED    /* nothing more is taken */
} yk_guard_state;

/* Start from {0}; free with yk_request_guard_free. One thread at a time. */
typedef struct yk_request_guard {
  yk_guard_state state;
  yk_strbuf text;      /* the head, or the line, as far as it has come */
  bool has_line;       /* of the head: the first line is whole */
  uint64_t left_bytes; /* of the body, or of the chunk */
  size_t n_trailer_bytes;
  bool is_http_1_0;                           /* the request under way, or the last */
  char method[16], path[YK_GUARD_PATH_BYTES]; /* its beginnings, "" until they are known; path: without the query */
  yk_reply refusal;                           /* once REFUSED; its body may be taken away */
} yk_request_guard;

/* yk_request_guard_take - check bytes [n_bytes] that have come, and append those that may pass to out, written anew.
 *   Returns how many were checked: fewer than n_bytes where a request ends before, or is refused. */
size_t yk_request_guard_take(yk_request_guard *guard, const char *bytes, size_t n_bytes, yk_strbuf *out);

/* yk_request_guard_next - a request is DONE, and another one may come. */
void yk_request_guard_next(yk_request_guard *guard);

void yk_request_guard_free(yk_request_guard *guard);

#endif
