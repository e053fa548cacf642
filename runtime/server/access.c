#include "server/access.h"

#include <string.h>
#include <strings.h>

#include "server/request_id.h"

bool yk_access_has_key(const char *api_key, const char *authorization)
{
  static const char scheme[] = "Bearer ";
  if (!authorization || strncasecmp(authorization, scheme, strlen(scheme)) != 0) return false;
  const char *given = authorization + strlen(scheme);
  size_t n_given = strlen(given), n_key = strlen(api_key);
  unsigned char differs = n_given != n_key;
  for (size_t i = 0; i < n_given; i++) differs |= (unsigned char)(given[i] ^ api_key[i % n_key]);
  return !differs;
}

static bool is_allowed(const yk_server_options *options, const char *origin)
{
  for (size_t i = 0; i < options->n_origins; i++)
    if (strcmp(options->origins[i], "*") == 0 || strcmp(options->origins[i], origin) == 0) return true;
  return false;
}

void yk_access_add_headers(const yk_server_options *options, struct MHD_Connection *mhd, struct MHD_Response *response,
                           bool is_preflight)
{
  if (options->n_origins == 0) return;
  MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Origin"); /* for caches, also where it is not allowed */
  const char *origin = MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);
  if (!origin || !is_allowed(options, origin)) return;
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
  MHD_add_response_header(response, "Access-Control-Expose-Headers", "Retry-After, " YK_REQUEST_ID_HEADER);
  if (!is_preflight) return;
  const char *headers =
      MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_HEADERS);
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS");
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                          headers ? headers : "Authorization, Content-Type");
  MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "600");
}
