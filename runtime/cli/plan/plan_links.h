/* plan_links.h - the GPU part of `yoke plan`: the GPUs, their links, and the speed of all-reduces. */
#ifndef YK_CLI_PLAN_LINKS_H
#define YK_CLI_PLAN_LINKS_H

#include "yoke/tools.h"
#include "yoke/yoke.h"

typedef struct yk_links_options {
  bool wants_gpus;       /* false: ranks run on the CPU */
  const int *device_ids; /* [n_devices], or NULL for the first n_devices, or as many as there are */
  int n_devices;
  bool measures; /* false: only report which GPUs have peer access */
  bool as_json;  /* one line: {"gpus": [..], "links": [..], "sums": [..], "sum_error": ".."} */
} yk_links_options;

/* yk_plan_links_print - print to stdout. A failed link or sum is part of the output. Errors: YK_E_NOMEM, YK_E_INVAL and
 *   YK_E_DEVICE as in yk_links_test and yk_device_list. */
yk_status yk_plan_links_print(const yk_links_options *options, yk_err *err);

#endif
