/* device_ids.h - the values of --device and --devices. */
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

/* yk_device_ids_check - a list that was given names GPUs, so device (a yk_device_kind) must not be the CPU, and is as
 *   long as there are ranks. n_ranks: the value of ranks_option ("--ranks"); 0: that was not given. Errors:
 *   YK_E_INVAL. */
yk_status yk_device_ids_check(const yk_device_ids *list, int device, int n_ranks, const char *ranks_option,
                              yk_err *err);

/* yk_device_names - what --device takes, in the order of yk_device_kind; NULL behind the last. */
extern const char *const yk_device_names[];

#endif
