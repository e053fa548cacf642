#include "server/framing.h"

#include <string.h>
#include <strings.h>

typedef struct framing_headers {
  int n_hosts, n_lengths, n_codings;
  const char *coding;      /* of Transfer-Encoding, the last; or NULL */
  const char *spaced_name; /* of a header, with a space or tab; or NULL */
} framing_headers;

static enum MHD_Result add_header(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
  (void)kind;
  framing_headers *found = user;
  if (strpbrk(name, " \t")) found->spaced_name = name;
  found->n_hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
  found->n_lengths += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
  if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
    found->n_codings++;
    found->coding = value;
  }
  return MHD_YES;
}

void yk_framing_check(struct MHD_Connection *mhd, const char *version, yk_reply *reply)
{
  framing_headers found = {0};
  MHD_get_connection_values(mhd, MHD_HEADER_KIND, add_header, &found);
  bool may_lack_host = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
  if (found.spaced_name)
    yk_reply_refuse(reply, 400, NULL, "header \"%.60s\": expected a name without spaces", found.spaced_name);
  else if (found.n_hosts > 1 || (found.n_hosts == 0 && !may_lack_host))
    yk_reply_refuse(reply, 400, NULL, "Host: expected one, found %d", found.n_hosts);
  else if (found.n_codings > 1 || (found.coding && strcasecmp(found.coding, "chunked") != 0))
    yk_reply_refuse(reply, 501, NULL, "Transfer-Encoding: expected chunked, found %.60s", found.coding);
  else if (found.n_lengths > 1)
    yk_reply_refuse(reply, 400, NULL, "Content-Length: expected one, found %d", found.n_lengths);
  else if (found.n_lengths && found.coding)
    yk_reply_refuse(reply, 400, NULL, "expected one of Content-Length and Transfer-Encoding, found both");
  reply->is_last = reply->http_status != 0;
}
