/* process_options.h - options that divide the ranks of a model among several processes, and the launchers that start
 * such processes: vLLM's flags, torchrun, MPI. */
#ifndef YK_CLI_PROCESS_OPTIONS_H
#define YK_CLI_PROCESS_OPTIONS_H

#include "cli/options/options.h"
#include "yoke/yoke.h"

enum { YK_PROCESS_OPTIONS = 7 };

typedef struct yk_process_options {
  int32_t n, process, master_port;
  bool n_given, process_given, port_given, is_headless;
  const char *master_host;
  const char **hosts; /* [n_hosts] owned */
  int n_hosts;
  double start_timeout_s;
} yk_process_options;

/* yk_process_options_init - the defaults. Free with yk_process_options_free. */
void yk_process_options_init(yk_process_options *options);
void yk_process_options_free(yk_process_options *options);

/* yk_process_options_fill - the rows [YK_PROCESS_OPTIONS] of the table, which store into *options. */
void yk_process_options_fill(yk_process_options *options, yk_option *rows);

/* yk_process_options_has - whether an option of a table is one of these rows. */
bool yk_process_options_has(const yk_process_options *options, const yk_option *option);

/* yk_process_options_apply - store the processes in *engine, which then points to the options' hosts and into the
 *   environment:
 *   of the options if --nnodes is given, else of torchrun (WORLD_SIZE, RANK, MASTER_ADDR, MASTER_PORT), else of MPI
 *   (OMPI_*, PMIX_*, PMI_*). YOKE_CLUSTER_KEY is the processes' secret. Without any of these there is one process.
 *   Errors: YK_E_INVAL, naming the option or variable. */
yk_status yk_process_options_apply(const yk_process_options *options, yk_engine_options *engine, yk_err *err);

#endif
