/* access.h - access control: keys, and pages of other origins. */
#ifndef YK_SERVER_ACCESS_H
#define YK_SERVER_ACCESS_H

#include <microhttpd.h>
#include <stdbool.h>

#include "server/reply.h"
#include "server/server_options.h"

/* The headers with a client's key, each NULL if it is missing. */
typedef struct yk_key_headers {
  const char *authorization; /* "Bearer KEY" */
  const char *x_api_key;     /* "KEY" */
} yk_key_headers;

/* yk_access_has_key - whether one of the headers has one of the options' keys, or the options have no keys. *key: index
 *   of the key; unchanged if the options have no keys. Takes equally long for every wrong key of one length. Thread:
 *   any. */
bool yk_access_has_key(const yk_server_options *options, const yk_key_headers *headers, size_t *key);

/* The addressee and the origin of a request. */
typedef struct yk_access_headers {
  const char *host; /* "localhost:8000"; NULL: none, as HTTP/1.0 allows */
  /* of the page that sends the request; NULL: not from a page, or a GET from the server's own page */
  const char *origin;
} yk_access_headers;

/* yk_access_check - protects the server from web pages that may not use it. Refuses with 403 a Host that is not the
 *   server's (a page may have its own name resolved to 127.0.0.1), and an origin that is neither the Host's nor one of
 *   the options'.
 *   is_local: the server listens on a loopback address. If so, or if the options have allowed hosts, the server's hosts
 *   are "localhost", 127.x.x.x, [::1] and the allowed hosts; else every host is the server's. */
void yk_access_check(const yk_server_options *options, bool is_local, const yk_access_headers *headers,
                     yk_reply *reply);

/* yk_access_add_headers - allow a page of another origin to read the response, if its origin is one of the options'.
 *   is_preflight: add the methods and headers that the page may send. */
void yk_access_add_headers(const yk_server_options *options, struct MHD_Connection *mhd, struct MHD_Response *response,
                           bool is_preflight);

#endif
