/* device_ids.h - the value of --devices. */
#ifndef YK_CLI_DEVICE_IDS_H
#define YK_CLI_DEVICE_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* CUDA ordinals, in the order of the ranks. */
typedef struct yk_device_ids {
  int32_t *ids; /* [n] */
  size_t n;
} yk_device_ids;

/* yk_device_ids_parse - "0,2,3", each once, into a yk_device_ids, in place of what it held: for yk_option.parse. Free
 *   ids. Errors: YK_E_INVAL, YK_E_NOMEM. */
yk_status yk_device_ids_parse(void *device_ids, const char *text, yk_err *err);

#endif
