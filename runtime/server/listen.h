/* listen.h - the socket that clients connect to: bound by us, or handed over by systemd. */
#ifndef YK_SERVER_LISTEN_H
#define YK_SERVER_LISTEN_H

#include <stdbool.h>

#include "base/status.h"

enum { YK_URL_BYTES = 128 };

/* yk_listen_open - a non-blocking listening socket on host (a name or an address; "::" and "0.0.0.0" mean all) and port
 *   (0: any free one), or the first that systemd passed to this process ($LISTEN_FDS), whatever host and port say.
 *   url: "http://127.0.0.1:8000" as it is bound. Errors: YK_E_IO. */
yk_status yk_listen_open(const char *host, int port, int *fd, char url[YK_URL_BYTES], yk_err *err);

/* yk_listen_is_local - whether a listening socket is bound to a loopback address. */
bool yk_listen_is_local(int fd);

/* yk_service_notify - tell systemd, where it asked for that ($NOTIFY_SOCKET): "READY=1", "STOPPING=1". */
void yk_service_notify(const char *state);

#endif
