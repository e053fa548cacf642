/* study_options.h - the command line of `yoke study`. */
#ifndef YK_CLI_STUDY_OPTIONS_H
#define YK_CLI_STUDY_OPTIONS_H

#include "cli/cli.h"
#include "cli/options/model_options.h"
#include "study/plan.h"

typedef struct yk_study_settings {
  yk_model_options model;
  yk_sweep sweep;
  yk_values batches, rates, clients; /* one of them becomes the sweep's loads */
  int32_t n_repeats, n_starts, n_requests, shared_prefix;
  const char *output_dir, *machine_path;
  bool dry_run;
  yk_bench_load load;            /* shared by all points */
  yk_option points[10], runs[5]; /* tables that store into the struct */
  char *command;                 /* the whole command line, for resuming; owned */
} yk_study_settings;

/* yk_study_settings_parse - parse argv, the arguments behind "yoke study". True: continue. False: *exit_code is final,
 *   help or the error has been printed. Free with yk_study_settings_free either way. The struct must not move. */
bool yk_study_settings_parse(yk_study_settings *settings, int argc, char **argv, int *exit_code);
void yk_study_settings_free(yk_study_settings *settings);

/* yk_study_settings_engine - the engine options of a configuration, which point into settings. max_seqs is at least the
 *   largest load unless given. n_processes: of a swept --nnodes, else the most processes of the run that divide the
 *   ranks. Errors: YK_E_INVAL naming the option. */
yk_status yk_study_settings_engine(const yk_study_settings *settings, const yk_study_config *config,
                                   yk_engine_options *out, yk_err *err);

/* yk_study_settings_identity - the settings in which a resumed study must equal its beginning, under the names of
 *   options, and the model. *out belongs to the caller. Errors: YK_E_IO, YK_E_NOMEM. */
yk_status yk_study_settings_identity(const yk_study_settings *settings, json_t **out, yk_err *err);

enum { YK_STUDY_PURPOSE_BYTES = 64 };

/* yk_study_settings_purpose - a text that is equal in all processes of a study if their settings give the same engines
 *   in the same order. Errors: YK_E_NOMEM. */
yk_status yk_study_settings_purpose(const yk_study_settings *settings, char text[YK_STUDY_PURPOSE_BYTES], yk_err *err);

#endif
