/* plan_hosts.h - the hosts, GPUs and network that a plan of layouts is for: options of `yoke plan`, and their rates. */
#ifndef YK_CLI_PLAN_HOSTS_H
#define YK_CLI_PLAN_HOSTS_H

#include "cli/options/options.h"
#include "study/layouts.h"

enum { YK_PLAN_HOSTS_OPTIONS = 6 };

typedef struct yk_plan_hosts_options {
  const char *gpu, *machine_path;
  int32_t n_hosts, gpus_per_host; /* gpus_per_host 0: this machine's, else 8 */
  bool hosts_given, gpus_given, link_given, latency_given;
  double link_bytes_per_s, link_latency_us;
  const char *link_path; /* a file with measured links, in place of the rate; or NULL */
} yk_plan_hosts_options;

/* yk_plan_hosts_init - the defaults. */
void yk_plan_hosts_init(yk_plan_hosts_options *options);

/* yk_plan_hosts_table - fill the rows of the options. */
void yk_plan_hosts_table(yk_plan_hosts_options *options, yk_option table[YK_PLAN_HOSTS_OPTIONS]);

/* yk_plan_hosts_check - whether the options have an effect. ranks_layouts: the plan ranks layouts; one of these options
 *   is then used. Errors: YK_E_INVAL, naming the option and its requirement. */
yk_status yk_plan_hosts_check(const yk_plan_hosts_options *options, bool ranks_layouts, yk_err *err);

/* yk_plan_hosts_find - the hosts: the type of --gpu, else of the GPUs that --machine's file or this machine has; rates
 *   of that file, else of the type. *memory_bytes: of one GPU.
 *   Errors: YK_E_INVAL naming the known types; YK_E_IO, YK_E_FORMAT (the file); those of yk_device_list. */
yk_status yk_plan_hosts_find(const yk_plan_hosts_options *options, yk_layout_hosts *hosts, int64_t *memory_bytes,
                             yk_err *err);

#endif
