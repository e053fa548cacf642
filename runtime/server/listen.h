/* listen.h - the socket to which clients connect: bound by this process, or passed by systemd. */
#ifndef YK_SERVER_LISTEN_H
#define YK_SERVER_LISTEN_H

#include <stdbool.h>

#include "base/status.h"

enum { YK_URL_BYTES = 128 };

/* yk_listen_open - a non-blocking listening socket on host (a name or an address; "::" and "0.0.0.0" mean all
 *   addresses) and port (0: any free one), or the first socket that systemd passed to this process ($LISTEN_FDS),
 *   independent of host and port. url: "http://127.0.0.1:8000", from the bound address. Errors: YK_E_IO. */
yk_status yk_listen_open(const char *host, int port, int *fd, char url[YK_URL_BYTES], yk_err *err);

/* yk_listen_is_passed - whether the socket is systemd's, which stays open after this process. */
bool yk_listen_is_passed(void);

/* yk_listen_is_local - whether a listening socket is bound to a loopback address. */
bool yk_listen_is_local(int fd);

/* yk_service_notify - send "READY=1" or "STOPPING=1" to systemd, if it requested notifications ($NOTIFY_SOCKET). */
void yk_service_notify(const char *state);

#endif
