/* http.h - libmicrohttpd's callbacks: begin, receive, answer and end an exchange. */
#ifndef YK_SERVER_HTTP_H
#define YK_SERVER_HTTP_H

#include "server/exchange.h"

/* yk_http_handle - for MHD_start_daemon, with the server: called for the headers, for each piece of the body, at the
 *   end of the request, and again after a resume. */
enum MHD_Result yk_http_handle(void *server, struct MHD_Connection *mhd, const char *url, const char *method,
                               const char *version, const char *upload, size_t *upload_bytes, void **context);

/* yk_http_give_up - answer an exchange that is being prepared or runs with this error at once, without waiting for its
 *   worker. */
void yk_http_give_up(yk_exchange *exchange, const yk_openai_error *error);

/* yk_http_note_refused - for yk_connections, with the server: count and log a request that the guard has refused. */
void yk_http_note_refused(void *server, const yk_request_guard *guard);

/* yk_http_completed - for MHD_OPTION_NOTIFY_COMPLETED, with the server. */
void yk_http_completed(void *server, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code);

#endif
