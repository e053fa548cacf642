/* request_guard.h - checks the bytes of requests before libmicrohttpd reads them.
 *
 * libmicrohttpd appends folded header lines to the name before, takes a carriage return alone for the end of a line and
 * NULs for the end of a text. A proxy that parses such a request otherwise sees a different sequence of requests. Every
 * ambiguity about the end or the addressee of a request is therefore refused, as RFC 9110 (5.5, 8.6) and RFC 9112 (2.2,
 * 3.2, 5.1, 5.2, 6.1, 6.3, 7.1) require or allow, and the connection is closed. A request that passes is rewritten in a
 * form with one interpretation: one line per header, chunks without extensions and trailers, the target's path alone,
 * with the target's authority, if any, as Host. */
#ifndef YK_SERVER_REQUEST_GUARD_H
#define YK_SERVER_REQUEST_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "server/reply.h"

enum {
  YK_GUARD_PATH_BYTES = 128,
  YK_GUARD_TARGET_BYTES = 8 << 10, /* of a target; longer: 414 */
  /* in its query; more: 414, since each takes more memory in libmicrohttpd than it has bytes */
  YK_GUARD_ARGUMENTS = 256,
  YK_GUARD_HEAD_BYTES = 32 << 10, /* of request line and headers; longer: 431 */
  YK_GUARD_HEADERS = 128          /* more: 431 */
};

typedef enum yk_guard_state {
  YK_GUARD_HEAD,
  YK_GUARD_BODY,       /* length given in the head */
  YK_GUARD_CHUNK_SIZE, /* the line before a chunk */
  YK_GUARD_CHUNK,
  YK_GUARD_CHUNK_END, /* the line end after it */
  YK_GUARD_TRAILER,   /* lines after the last chunk */
  YK_GUARD_DONE,      /* the request has passed as a whole */
  YK_GUARD_REFUSED    /* no more bytes are accepted */
} yk_guard_state;

/* Start from {0}; free with yk_request_guard_free. One thread at a time. */
typedef struct yk_request_guard {
  yk_guard_state state;
  yk_strbuf text;      /* the head, or the line, received so far */
  bool has_line;       /* of the head: the first line is complete */
  uint64_t left_bytes; /* of the body or the chunk */
  size_t n_trailer_bytes;
  bool is_http_1_0;                           /* the current request, or the last */
  char method[16], path[YK_GUARD_PATH_BYTES]; /* truncated, "" until known; path: without the query */
  yk_reply refusal;                           /* set in state REFUSED; the caller may take its body */
} yk_request_guard;

/* yk_request_guard_take - check bytes [n_bytes] that have arrived, and append those that may pass to out, written anew.
 *   Returns the number of bytes checked: fewer than n_bytes if a request ends before, or is refused. */
size_t yk_request_guard_take(yk_request_guard *guard, const char *bytes, size_t n_bytes, yk_strbuf *out);

/* yk_request_guard_next - after DONE: another request may follow. */
void yk_request_guard_next(yk_request_guard *guard);

void yk_request_guard_free(yk_request_guard *guard);

#endif
