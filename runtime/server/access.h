/* access.h - who may ask: keys, and pages of other origins. */
#ifndef YK_SERVER_ACCESS_H
#define YK_SERVER_ACCESS_H

#include <microhttpd.h>
#include <stdbool.h>

#include "server/server_options.h"

/* yk_access_has_key - whether an Authorization header (NULL: none) is "Bearer KEY". Takes equally long for every wrong
 *   key of one length. */
bool yk_access_has_key(const char *api_key, const char *authorization);

/* yk_access_add_headers - allow a page of another origin to read the response, where its origin is one of the options'.
 *   is_preflight: tell what it may send, too. */
void yk_access_add_headers(const yk_server_options *options, struct MHD_Connection *mhd, struct MHD_Response *response,
                           bool is_preflight);

#endif
