/* request_id.h - the name of a request for clients, proxies and the log: the header X-Request-Id, which every answer
 * carries, and the answer's id behind "cmpl-" or "chatcmpl-". */
#ifndef YK_SERVER_REQUEST_ID_H
#define YK_SERVER_REQUEST_ID_H

#include "server/exchange.h"

#define YK_REQUEST_ID_HEADER "X-Request-Id"

/* yk_request_id_choose - set exchange->request_id: to the client's (NULL: none was sent), if that has 1 to 128
 *   characters of visible ASCII, else to a generated one of 32 hexadecimal digits. Server thread. */
void yk_request_id_choose(yk_exchange *exchange, const char *clients);

#endif
