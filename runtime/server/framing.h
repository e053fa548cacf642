/* framing.h - whether a request's headers say without doubt whom it is for and where it ends.
 *
 * libmicrohttpd takes the first of several lengths, and a body of unknown coding up to the connection's end. A proxy
 * may take them otherwise, and would then see another sequence of requests than we do; so such a request is refused and
 * its connection closed, as RFC 9112 wants (sections 3.2, 5.1, 6.1 and 6.3). */
#ifndef YK_SERVER_FRAMING_H
#define YK_SERVER_FRAMING_H

#include <microhttpd.h>

#include "server/reply.h"

/* yk_framing_check - refuse a request whose headers leave doubt: the reply says why, and is to be the last on its
 *   connection. version: the request's, as "HTTP/1.1". Server thread. */
void yk_framing_check(struct MHD_Connection *mhd, const char *version, yk_reply *reply);

#endif
