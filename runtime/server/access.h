/* access.h - who may ask: keys, and pages of other origins. */
#ifndef YK_SERVER_ACCESS_H
#define YK_SERVER_ACCESS_H

#include <microhttpd.h>
#include <stdbool.h>

#include "server/reply.h"
#include "server/server_options.h"

/* yk_access_has_key - whether an Authorization header (NULL: none) is "Bearer KEY" with one of the options' keys, or
 *   they have none. *key: which, from 0. Takes equally long for every wrong key of one length. Thread: any. */
bool yk_access_has_key(const yk_server_options *options, const char *authorization, size_t *key);

/* Whom a request says that it is for, and from where. */
typedef struct yk_access_headers {
  const char *host;   /* "localhost:8000"; NULL: none, as HTTP/1.0 allows */
  const char *origin; /* of the page that asks; NULL: not from a page, or from one of ours by GET */
} yk_access_headers;

/* yk_access_check - keep web pages out that are not to use the server: refuse, with 403, a Host that is not one of ours
 *   (a page may have its own name resolved to 127.0.0.1) and an origin that is neither the Host's nor one of the
 *   options'.
 *   is_local: the server listens on a loopback address. Then "localhost", 127.x.x.x, [::1] and the options' allowed
 *   hosts are ours, else any, unless the options have some: then those too. */
void yk_access_check(const yk_server_options *options, bool is_local, const yk_access_headers *headers,
                     yk_reply *reply);

/* yk_access_add_headers - allow a page of another origin to read the response, where its origin is one of the options'.
 *   is_preflight: tell what it may send, too. */
void yk_access_add_headers(const yk_server_options *options, struct MHD_Connection *mhd, struct MHD_Response *response,
                           bool is_preflight);

#endif
