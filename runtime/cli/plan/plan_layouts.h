/* plan_layouts.h - `yoke plan --goal`: ranks the layouts of a model on a machine's GPUs, tp x pp x replicas, by the
 * speed to expect (study/layouts.h). */
#ifndef YK_CLI_PLAN_LAYOUTS_H
#define YK_CLI_PLAN_LAYOUTS_H

#include "cli/plan/plan_hosts.h"
#include "yoke/yoke.h"

typedef enum yk_plan_goal { YK_GOAL_NONE, YK_GOAL_LATENCY, YK_GOAL_THROUGHPUT } yk_plan_goal;

typedef struct yk_plan_layouts_options {
  int goal; /* yk_plan_goal; none counts as throughput */
  yk_plan_hosts_options hosts;
  int32_t input_len, output_len;
  bool load_given;             /* one of the lengths */
  int32_t n_users;             /* requests at a time over all replicas; 0: one, or as many as fit, by the goal */
  int64_t device_memory_bytes; /* of each GPU; 0: of the type */
  bool as_json;                /* a line a layout */
} yk_plan_layouts_options;

/* yk_plan_layouts_print - print the ranking to stdout, the best layout first. Errors: those of yk_plan_hosts_find,
 *   yk_model_shapes_read and yk_plan_make; YK_E_CAPACITY if no layout fits. */
yk_status yk_plan_layouts_print(const yk_plan_layouts_options *options, const yk_engine_options *engine, yk_err *err);

#endif
