/* bench_options.h - the command line of `yoke bench`: a load, the number of runs, and the destination of the
 * figures. */
#ifndef YK_CLI_BENCH_OPTIONS_H
#define YK_CLI_BENCH_OPTIONS_H

#include "bench/load.h"
#include "cli/options/model_options.h"

enum { YK_BENCH_MAX_REPEATS = 64 };

typedef struct yk_bench_options {
  yk_model_options model;
  yk_bench_load load;
  yk_bench_trace trace; /* owned; read from the file of --lengths */
  const char *lengths_path, *output_path, *trace_path;
  int32_t repeats;
  int arrivals;
  double temperature, top_p;
  bool batch_given, clients_given, rate_given, requests_given, arrivals_given, input_given, output_given;
  bool context_given; /* --max-model-len */
} yk_bench_options;

/* yk_bench_options_init - the defaults. The struct must not move. Free with yk_bench_options_free. */
void yk_bench_options_init(yk_bench_options *options);
void yk_bench_options_free(yk_bench_options *options);

/* yk_bench_options_parse - parse and check a command line; *engine: the engine's options, sized for the load unless the
 *   command line gives sizes. True: continue. False: *exit_code is final, help or an error has been printed. */
bool yk_bench_options_parse(yk_bench_options *options, int argc, char **argv, yk_engine_options *engine,
                            int *exit_code);

#endif
