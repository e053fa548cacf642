/* sockets.h - TCP sockets: addresses, listening, connecting, and whole messages with a deadline. No call raises
 * SIGPIPE. Deadlines are times of yk_clock_now_ns; YK_NO_DEADLINE: none. */
#ifndef YK_PARALLEL_CLUSTER_SOCKETS_H
#define YK_PARALLEL_CLUSTER_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "parallel/cluster/frame.h"

#define YK_NO_DEADLINE INT64_MAX
enum { YK_ADDRESS_BYTES = 64 }; /* of the text of an address with its port */

typedef struct sockaddr_storage yk_address;

/* yk_address_text - "10.0.0.1:4000" or "[::1]:4000"; without a port if with_port is false. */
void yk_address_text(const yk_address *address, bool with_port, char text[YK_ADDRESS_BYTES]);
bool yk_address_is_loopback(const yk_address *address);
/* yk_address_equal - whether host parts are equal; an IPv4 address equals itself mapped to IPv6. */
bool yk_address_equal(const yk_address *a, const yk_address *b);
int yk_address_port(const yk_address *address);

/* yk_resolve - up to capacity addresses of a host: a name, an IPv4 or an IPv6 address, also in brackets. Returns their
 *   number, 0 with *why set to the reason. */
int yk_resolve(const char *host, int port, yk_address *out, int capacity, const char **why);

/* yk_listen_at - a listening socket. address NULL: all addresses of this machine. Errors: YK_E_IO. */
yk_status yk_listen_at(const yk_address *address, int port, int *fd, yk_err *err);
yk_status yk_listen_host(const char *host, int port, int *fd, yk_err *err);
int yk_port_of(int fd);

/* yk_hold_port - ends a listening socket and keeps its port free for processes that listen on it by number: *fd then is
 *   a socket that does nothing else, or -1. Errors: YK_E_IO. */
yk_status yk_hold_port(int *fd, yk_err *err);

/* yk_connect - one attempt at every address of the host, until the deadline. Errors: YK_E_IO, naming the reason of the
 *   last one. */
yk_status yk_connect(const char *host, int port, int64_t deadline_ns, int *fd, yk_err *err);

/* yk_set_up - no delay of small messages, closed on exec. */
void yk_set_up(int fd);

/* yk_await - wait until the socket is readable or writable (POLLIN, POLLOUT) or has ended. False: the deadline. */
bool yk_await(int fd, short events, int64_t deadline_ns);

/* yk_send_all - frame and pieces as one message. Errors: YK_E_COMM with the reason, YK_E_TIMEOUT. */
yk_status yk_send_all(int fd, const yk_frame *frame, const struct iovec *pieces, int n_pieces, int64_t deadline_ns,
                      yk_err *err);
/* yk_receive_all - exactly n_bytes. Errors: YK_E_COMM ("the connection was closed"), YK_E_TIMEOUT. */
yk_status yk_receive_all(int fd, void *to, size_t n_bytes, int64_t deadline_ns, yk_err *err);

/* yk_skip_pieces - take n_bytes from the front of pieces, in place. Returns the number of pieces that are done. */
int yk_skip_pieces(struct iovec *pieces, int n_pieces, size_t n_bytes);

#endif
