/* api_keys.h - the keys of which clients must send one: of --api-key, --api-key-file and YOKE_API_KEY. */
#ifndef YK_CLI_API_KEYS_H
#define YK_CLI_API_KEYS_H

#include <stddef.h>

#include "base/status.h"

typedef struct yk_api_keys {
  char **keys; /* [n] owned, as copies: what stood in argv is overwritten */
  size_t n;
} yk_api_keys;

void yk_api_keys_free(yk_api_keys *keys);

/* yk_api_keys_add - for yk_option.parse: one key more, keys being a yk_api_keys. Errors: YK_E_INVAL (it is empty, or
 *   holds what no header can carry), YK_E_NOMEM. */
yk_status yk_api_keys_add(void *keys, const char *text, yk_err *err);

/* yk_api_keys_add_file - the same for a file of them, one a line, "-" being standard input; white space around a key
 *   and blank lines do not count.
 *   Errors: YK_E_IO, YK_E_INVAL (a line as above; no key at all), YK_E_NOMEM. */
yk_status yk_api_keys_add_file(void *keys, const char *path, yk_err *err);

#endif
