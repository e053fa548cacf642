/* api_keys.h - the accepted keys, from --api-key, --api-key-file and YOKE_API_KEY. */
#ifndef YK_CLI_API_KEYS_H
#define YK_CLI_API_KEYS_H

#include <stddef.h>

#include "base/status.h"

typedef struct yk_api_keys {
  char **keys; /* [n] owned copies: the values in argv are overwritten */
  size_t n;
} yk_api_keys;

void yk_api_keys_free(yk_api_keys *keys);

/* yk_api_keys_add - add a key to the yk_api_keys at keys; for yk_option.parse. Errors: YK_E_INVAL (an empty key, or a
 *   character that no header can contain), YK_E_NOMEM. */
yk_status yk_api_keys_add(void *keys, const char *text, yk_err *err);

/* yk_api_keys_add_file - add the keys of a file, one on each line, "-" being standard input; white space around a key
 *   and blank lines are ignored.
 *   Errors: YK_E_IO, YK_E_INVAL (a line as above; no key at all), YK_E_NOMEM. */
yk_status yk_api_keys_add_file(void *keys, const char *path, yk_err *err);

#endif
