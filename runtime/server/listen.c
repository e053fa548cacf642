#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_PASSED_FD = 3, BACKLOG = 4096 }; /* the kernel lowers the backlog to net.core.somaxconn */

static int passed_socket(void)
{
  const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
  if (!pid || !n || strtol(pid, NULL, 10) != getpid() || strtol(n, NULL, 10) < 1) return -1;
  return FIRST_PASSED_FD;
}

static yk_status adopt(int fd, yk_err *err)
{
  int is_listening = 0;
  socklen_t n_bytes = sizeof is_listening;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &n_bytes) != 0 || !is_listening)
    return yk_err_set(err, YK_E_IO, "LISTEN_FDS: descriptor %d is no listening socket", fd);
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
    return yk_err_set(err, YK_E_IO, "LISTEN_FDS: descriptor %d: %s", fd, strerror(errno));
  return YK_OK;
}

/* A bound and listening socket, or -1 with errno. */
static int open_at(const struct addrinfo *address)
{
  int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static yk_status bind_new(const char *host, int port, int *fd, yk_err *err)
{
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  struct addrinfo *addresses;
  char service[16];
  if (!host[0]) return yk_err_set(err, YK_E_INVAL, "--host: expected an address or a name, found an empty one");
  snprintf(service, sizeof service, "%d", port);
  int failed = getaddrinfo(host, service, &hints, &addresses);
  if (failed) return yk_err_set(err, YK_E_IO, "--host %.80s: %s", host, gai_strerror(failed));
  *fd = -1;
  for (const struct addrinfo *at = addresses; at && *fd < 0; at = at->ai_next) *fd = open_at(at);
  int error = errno;
  freeaddrinfo(addresses);
  return *fd >= 0 ? YK_OK : yk_err_set(err, YK_E_IO, "cannot listen on %.80s port %d: %s", host, port, strerror(error));
}

typedef union bound_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
  struct sockaddr_un local;
} bound_address;

static bound_address address_of(int fd)
{
  bound_address address = {0};
  socklen_t n_bytes = sizeof address;
  getsockname(fd, &address.any, &n_bytes);
  return address;
}

bool yk_listen_is_passed(void)
{
  return passed_socket() >= 0;
}

bool yk_listen_is_local(int fd)
{
  bound_address address = address_of(fd);
  const struct in6_addr *v6 = &address.v6.sin6_addr;
  if (address.any.sa_family == AF_INET) return ntohl(address.v4.sin_addr.s_addr) >> 24 == 127;
  return address.any.sa_family == AF_INET6 &&
         (IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127));
}

static void describe(int fd, char url[YK_URL_BYTES])
{
  bound_address address = address_of(fd);
  char text[INET6_ADDRSTRLEN] = "";
  if (address.any.sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof text);
    snprintf(url, YK_URL_BYTES, "http://[%s]:%d", text, ntohs(address.v6.sin6_port));
  } else if (address.any.sa_family == AF_INET) {
    inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof text);
    snprintf(url, YK_URL_BYTES, "http://%s:%d", text, ntohs(address.v4.sin_port));
  } else {
    snprintf(url, YK_URL_BYTES, "unix:%.100s", address.local.sun_path);
  }
}

yk_status yk_listen_open(const char *host, int port, int *fd, char url[YK_URL_BYTES], yk_err *err)
{
  *fd = passed_socket();
  if (*fd >= 0)
    YK_TRY(adopt(*fd, err));
  else
    YK_TRY(bind_new(host, port, fd, err));
  describe(*fd, url);
  return YK_OK;
}

void yk_service_notify(const char *state)
{
  const char *path = getenv("NOTIFY_SOCKET");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = path ? strlen(path) : 0;
  if (length < 2 || length >= sizeof address.sun_path) return;
  memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0'; /* the abstract name space: no file */
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
  close(fd);
}
