#include "parallel/cluster/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static socklen_t length_of(const yk_address *address)
{
  return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

void yk_address_text(const yk_address *address, bool with_port, char text[YK_ADDRESS_BYTES])
{
  char host[INET6_ADDRSTRLEN + 16] = "?", port[8] = "?";
  getnameinfo((const struct sockaddr *)address, length_of(address), host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  const char *shown = strncmp(host, "::ffff:", 7) == 0 && strchr(host, '.') ? host + 7 : host;
  if (!with_port)
    snprintf(text, YK_ADDRESS_BYTES, "%.55s", shown);
  else
    snprintf(text, YK_ADDRESS_BYTES, strchr(shown, ':') ? "[%.53s]:%s" : "%.53s:%s", shown, port);
}

/* The host part as an IPv6 address. */
static struct in6_addr host_part(const yk_address *address)
{
  struct in6_addr host = {0};
  if (address->ss_family == AF_INET6) return ((const struct sockaddr_in6 *)address)->sin6_addr;
  host.s6_addr[10] = host.s6_addr[11] = 0xff;
  memcpy(&host.s6_addr[12], &((const struct sockaddr_in *)address)->sin_addr, 4);
  return host;
}

bool yk_address_is_loopback(const yk_address *address)
{
  struct in6_addr host = host_part(address);
  return IN6_IS_ADDR_LOOPBACK(&host) || (IN6_IS_ADDR_V4MAPPED(&host) && host.s6_addr[12] == 127);
}

bool yk_address_equal(const yk_address *a, const yk_address *b)
{
  struct in6_addr one = host_part(a), other = host_part(b);
  return memcmp(&one, &other, sizeof one) == 0;
}

int yk_address_port(const yk_address *address)
{
  return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                              : ((const struct sockaddr_in *)address)->sin_port);
}

int yk_resolve(const char *host, int port, yk_address *out, int capacity, const char **why)
{
  char service[8], inner[INET6_ADDRSTRLEN + IF_NAMESIZE];
  const size_t n_host = strlen(host);
  snprintf(service, sizeof service, "%d", port);
  if (n_host > 2 && n_host < sizeof inner && host[0] == '[' && host[n_host - 1] == ']') {
    snprintf(inner, sizeof inner, "%.*s", (int)n_host - 2, host + 1);
    host = inner;
  }
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found = NULL;
  int result = getaddrinfo(host, service, &hints, &found);
  if (result != 0) {
    *why = gai_strerror(result);
    return 0;
  }
  int n = 0;
  for (struct addrinfo *at = found; at && n < capacity; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    memset(&out[n], 0, sizeof out[n]);
    memcpy(&out[n++], at->ai_addr, at->ai_addrlen);
  }
  freeaddrinfo(found);
  *why = "no IPv4 or IPv6 address";
  return n;
}

void yk_set_up(int fd)
{
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* With IPv6, a socket for all addresses accepts IPv4 too. A socket that does not listen keeps others from the port, but
 * not from listening on it by number. */
static int open_bound(const yk_address *address, bool listens)
{
  int on = 1, off = 0;
  int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const bool is_bound = bind(fd, (const struct sockaddr *)address, length_of(address)) == 0;
  if (is_bound && (!listens || listen(fd, 256) == 0)) return fd;
  int failure = errno;
  close(fd);
  errno = failure;
  return -1;
}

static yk_status listen_error(const char *where, int reason, yk_err *err)
{
  const char *advice = "";
  if (reason == EADDRINUSE)
    advice = ": another program or run has the port; give all processes another one (--master-port)";
  else if (reason == EADDRNOTAVAIL)
    advice = ": no network interface of this host has the address (--master-addr)";
  return yk_err_set(err, YK_E_IO, "cannot listen on %s: %s%s", where, strerror(reason), advice);
}

yk_status yk_listen_at(const yk_address *address, int port, int *fd, yk_err *err)
{
  if (address) {
    char text[YK_ADDRESS_BYTES];
    yk_address here = *address;
    if (here.ss_family == AF_INET6)
      ((struct sockaddr_in6 *)&here)->sin6_port = htons((uint16_t)port);
    else
      ((struct sockaddr_in *)&here)->sin_port = htons((uint16_t)port);
    *fd = open_bound(&here, true);
    yk_address_text(&here, true, text);
    return *fd >= 0 ? YK_OK : listen_error(text, errno, err);
  }
  struct sockaddr_in6 all = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = in6addr_any};
  struct sockaddr_in all_4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  yk_address any = {0};
  memcpy(&any, &all, sizeof all);
  *fd = open_bound(&any, true);
  if (*fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) { /* a machine without IPv6 */
    memset(&any, 0, sizeof any);
    memcpy(&any, &all_4, sizeof all_4);
    *fd = open_bound(&any, true);
  }
  if (*fd >= 0) return YK_OK;
  char text[24];
  snprintf(text, sizeof text, "port %d", port);
  return listen_error(text, errno, err);
}

yk_status yk_listen_host(const char *host, int port, int *fd, yk_err *err)
{
  yk_address address;
  const char *why;
  if (yk_resolve(host, port, &address, 1, &why) == 0)
    return yk_err_set(err, YK_E_IO, "cannot listen on %s: %s", host, why);
  return yk_listen_at(&address, port, fd, err);
}

yk_status yk_hold_port(int *fd, yk_err *err)
{
  yk_address address = {0};
  char text[YK_ADDRESS_BYTES];
  socklen_t length = sizeof address;
  const bool is_known = getsockname(*fd, (struct sockaddr *)&address, &length) == 0;
  close(*fd);
  *fd = is_known ? open_bound(&address, false) : -1;
  if (*fd >= 0) return YK_OK;
  yk_address_text(&address, true, text);
  return listen_error(text, errno, err);
}

int yk_port_of(int fd)
{
  yk_address address = {0};
  socklen_t length = sizeof address;
  return getsockname(fd, (struct sockaddr *)&address, &length) == 0 ? yk_address_port(&address) : 0;
}

bool yk_await(int fd, short events, int64_t deadline_ns)
{
  for (;;) {
    int wait_ms = -1;
    bool is_late = false;
    if (deadline_ns != YK_NO_DEADLINE) {
      int64_t left_ns = deadline_ns - yk_clock_now_ns();
      is_late = left_ns <= 0;
      wait_ms = is_late ? 0 : left_ns > 1000000000 ? 1000 : (int)(left_ns / 1000000) + 1;
    }
    struct pollfd one = {.fd = fd, .events = events};
    if (poll(&one, 1, wait_ms) > 0) return true;
    if (is_late) return false;
  }
}

/* Returns an open blocking socket, or -1 with errno. */
static int connect_to(const yk_address *address, int64_t deadline_ns)
{
  int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int failure = 0;
  socklen_t length = sizeof failure;
  if (connect(fd, (const struct sockaddr *)address, length_of(address)) != 0) {
    failure = errno;
    if (failure == EINPROGRESS) {
      failure = ETIMEDOUT;
      if (yk_await(fd, POLLOUT, deadline_ns)) getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &length);
    }
  }
  if (failure == 0) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    yk_set_up(fd);
    return fd;
  }
  close(fd);
  errno = failure;
  return -1;
}

yk_status yk_connect(const char *host, int port, int64_t deadline_ns, int *fd, yk_err *err)
{
  yk_address addresses[8];
  const char *why;
  int n = yk_resolve(host, port, addresses, 8, &why);
  for (int i = 0; i < n; i++) {
    *fd = connect_to(&addresses[i], deadline_ns);
    if (*fd >= 0) return YK_OK;
    why = strerror(errno);
  }
  return yk_err_set(err, YK_E_IO, "cannot connect to %s, port %d: %s", host, port, why);
}

int yk_skip_pieces(struct iovec *pieces, int n_pieces, size_t n_bytes)
{
  int done = 0;
  for (; done < n_pieces && n_bytes >= pieces[done].iov_len; done++) {
    n_bytes -= pieces[done].iov_len;
    pieces[done].iov_len = 0;
  }
  if (done < n_pieces) {
    pieces[done].iov_base = (char *)pieces[done].iov_base + n_bytes;
    pieces[done].iov_len -= n_bytes;
  }
  return done;
}

static yk_status send_pieces(int fd, struct iovec *pieces, int n_pieces, int64_t deadline_ns, yk_err *err)
{
  int done = yk_skip_pieces(pieces, n_pieces, 0);
  while (done < n_pieces) {
    struct msghdr message = {.msg_iov = pieces + done, .msg_iovlen = (size_t)(n_pieces - done)};
    ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
      done += yk_skip_pieces(pieces + done, n_pieces - done, (size_t)sent);
    else if (errno == EAGAIN) {
      if (!yk_await(fd, POLLOUT, deadline_ns)) return yk_err_set(err, YK_E_TIMEOUT, "no data was taken in time");
    } else if (errno != EINTR)
      return yk_err_set(err, YK_E_COMM, "the connection ended (%s)", strerror(errno));
  }
  return YK_OK;
}

yk_status yk_send_all(int fd, const yk_frame *frame, const struct iovec *pieces, int n_pieces, int64_t deadline_ns,
                      yk_err *err)
{
  enum { MOST = 16 }; /* pieces sent at once */
  yk_frame head = *frame;
  struct iovec now[MOST] = {{.iov_base = &head, .iov_len = sizeof head}};
  int n_now = 1;
  for (int i = 0; i < n_pieces; i++) {
    now[n_now++] = pieces[i];
    if (n_now < MOST) continue;
    YK_TRY(send_pieces(fd, now, n_now, deadline_ns, err));
    n_now = 0;
  }
  return send_pieces(fd, now, n_now, deadline_ns, err);
}

yk_status yk_receive_all(int fd, void *to, size_t n_bytes, int64_t deadline_ns, yk_err *err)
{
  for (size_t got = 0; got < n_bytes;) {
    ssize_t n = recv(fd, (char *)to + got, n_bytes - got, MSG_DONTWAIT);
    if (n > 0)
      got += (size_t)n;
    else if (n == 0)
      return yk_err_set(err, YK_E_COMM, "the connection was closed");
    else if (errno == EAGAIN) {
      if (!yk_await(fd, POLLIN, deadline_ns)) return yk_err_set(err, YK_E_TIMEOUT, "no answer came in time");
    } else if (errno != EINTR)
      return yk_err_set(err, YK_E_COMM, "the connection ended (%s)", strerror(errno));
  }
  return YK_OK;
}
