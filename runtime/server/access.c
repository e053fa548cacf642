#include "server/access.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "server/request_id.h"

static bool is_key(const char *key, const char *given)
{
  size_t n_given = strlen(given), n_key = strlen(key);
  unsigned char differs = n_given != n_key;
  for (size_t i = 0; i < n_given; i++) differs |= (unsigned char)(given[i] ^ key[i % n_key]);
  return !differs;
}

static bool is_any_key(const yk_server_options *options, const char *given, size_t *key)
{
  bool found = false;
  for (size_t i = 0; i < options->n_api_keys; i++) { /* compares all keys: constant time */
    bool is_this = is_key(options->api_keys[i], given);
    if (is_this) *key = i;
    found |= is_this;
  }
  return found;
}

bool yk_access_has_key(const yk_server_options *options, const yk_key_headers *headers, size_t *key)
{
  static const char scheme[] = "Bearer ";
  const char *bearer = headers->authorization;
  if (options->n_api_keys == 0) return true;
  if (bearer && strncasecmp(bearer, scheme, strlen(scheme)) == 0 && is_any_key(options, bearer + strlen(scheme), key))
    return true;
  return headers->x_api_key && is_any_key(options, headers->x_api_key, key);
}

/* ---- Pages ------------------------------------------------------------------------------------------------------- */

/* Bytes of the name in "name:port" or "[address]:port"; the name is not empty. *port: text after the colon, or NULL if
 * there is none. 0: the text has neither form. */
static size_t name_bytes(const char *authority, const char **port)
{
  size_t n = authority[0] == '[' ? strcspn(authority, "]") : strcspn(authority, ":");
  if (authority[0] == '[') n += authority[n] == ']';
  *port = authority[n] == ':' ? authority + n + 1 : NULL;
  if (*port && (*port)[strspn(*port, "0123456789")]) return 0;
  return *port || !authority[n] ? n : 0;
}

static bool is_name(const char *host, size_t n_bytes, const char *name)
{
  return strlen(name) == n_bytes && strncasecmp(host, name, n_bytes) == 0;
}

/* 127.x.x.x, each x a number. */
static bool is_loopback_v4(const char *host, size_t n_bytes)
{
  char text[INET_ADDRSTRLEN];
  struct in_addr address;
  if (n_bytes >= sizeof text) return false;
  memcpy(text, host, n_bytes);
  text[n_bytes] = '\0';
  return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static bool is_ours(const yk_server_options *options, const char *host)
{
  const char *port;
  size_t n_bytes = name_bytes(host, &port);
  if (n_bytes == 0) return false;
  if (is_name(host, n_bytes, "localhost") || is_name(host, n_bytes, "[::1]") || is_loopback_v4(host, n_bytes))
    return true;
  for (size_t i = 0; i < options->n_allowed_hosts; i++)
    if (is_name(host, n_bytes, options->allowed_hosts[i])) return true;
  return false;
}

/* Whether the origin equals scheme and Host; either may omit the scheme's default port. */
static bool is_same(const char *origin, const char *host)
{
  const char *usual = strncasecmp(origin, "https://", 8) == 0 ? "443" : "80", *ports[2];
  if (strncasecmp(origin, "http://", 7) != 0 && strncasecmp(origin, "https://", 8) != 0) return false;
  origin = strstr(origin, "://") + 3;
  size_t n_bytes = name_bytes(origin, &ports[0]);
  if (n_bytes == 0 || name_bytes(host, &ports[1]) != n_bytes || strncasecmp(origin, host, n_bytes) != 0) return false;
  for (int i = 0; i < 2; i++)
    if (!ports[i] || !ports[i][0]) ports[i] = usual;
  return strcmp(ports[0], ports[1]) == 0;
}

static bool is_allowed(const yk_server_options *options, const char *origin)
{
  for (size_t i = 0; i < options->n_origins; i++)
    if (strcmp(options->origins[i], "*") == 0 || strcmp(options->origins[i], origin) == 0) return true;
  return false;
}

void yk_access_check(const yk_server_options *options, bool is_local, const yk_access_headers *headers, yk_reply *reply)
{
  const char *host = headers->host, *origin = headers->origin;
  bool is_restricted = is_local || options->n_allowed_hosts > 0;
  if (host && is_restricted && !is_ours(options, host))
    yk_reply_refuse(reply, 403, NULL,
                    "Host: expected localhost, 127.0.0.1, [::1] or a name that the server was started with "
                    "(--allowed-host), found %.100s",
                    host);
  else if (origin && !(host && is_same(origin, host)) && !is_allowed(options, origin))
    yk_reply_refuse(reply, 403, NULL,
                    "Origin: expected this server's own page or an origin that the server was started with "
                    "(--cors-origin), found %.100s",
                    origin);
}

void yk_access_add_headers(const yk_server_options *options, struct MHD_Connection *mhd, struct MHD_Response *response,
                           bool is_preflight)
{
  if (options->n_origins == 0) return;
  MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Origin"); /* for caches, also if the origin is not allowed */
  const char *origin = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);
  if (!origin || !is_allowed(options, origin)) return;
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
  MHD_add_response_header(response, "Access-Control-Expose-Headers", "Retry-After, " YK_REQUEST_ID_HEADER);
  if (!is_preflight) return;
  const char *headers =
      MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_HEADERS);
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE, OPTIONS");
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                          headers ? headers : "Authorization, Content-Type");
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "600");
}
