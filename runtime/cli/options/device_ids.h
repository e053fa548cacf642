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

/* yk_device_ids_parse - parse "0,2,3", each once, into a yk_device_ids, replacing its contents: for yk_option.parse.
 *   Free ids. Errors: YK_E_INVAL, YK_E_NOMEM. */
yk_status yk_device_ids_parse(void *device_ids, const char *text, yk_err *err);

/* yk_device_ids_check - checks a given list: device (a yk_device_kind) must not be the CPU, and the list must be as
 *   long as there are ranks. n_ranks: the value of ranks_option ("--ranks"); 0: not given. Errors: YK_E_INVAL. */
yk_status yk_device_ids_check(const yk_device_ids *list, int device, int n_ranks, const char *ranks_option,
                              yk_err *err);

/* yk_device_names - the values of --device, in the order of yk_device_kind; NULL-terminated. */
extern const char *const yk_device_names[];

#endif
