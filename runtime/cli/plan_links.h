/* plan_links.h - the part of `yoke plan` that is about GPUs: which there are, what links them, how fast they sum. */
#ifndef YK_CLI_PLAN_LINKS_H
#define YK_CLI_PLAN_LINKS_H

#include "yoke/tools.h"
#include "yoke/yoke.h"

typedef struct yk_links_options {
  bool wants_gpus;       /* false: ranks run on the CPU */
  const int *device_ids; /* [n_devices], or NULL for the first n_devices, or as many as there are */
  int n_devices;
  bool measures; /* false: say only which GPUs can reach each other */
  bool as_json;  /* one line: {"gpus": [..], "links": [..], "sums": [..], "sum_error": ".."} */
} yk_links_options;

/* yk_plan_links_print - to stdout. A link or a sum that fails is part of what is printed. Errors: YK_E_NOMEM,
 *   YK_E_INVAL and YK_E_DEVICE as yk_links_test and yk_device_list. */
yk_status yk_plan_links_print(const yk_links_options *options, yk_err *err);

#endif
