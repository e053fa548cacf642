/* yoke quantize - convert a checkpoint of 16-bit weights to 4-bit weights in AWQ's gemm format. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/command_text.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/options/device_ids.h"
#include "cli/options/model_options.h"
#include "cli/options/named_model.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

enum { MAX_KEPT = 256 };
#define CALIBRATION_MAX_BYTES ((size_t)1 << 30)

static const char *const method_names[] = {"rtn", "awq", NULL}; /* as in yk_quantize_method */

typedef struct quantize_options {
  yk_quantize_options quantize;
  yk_named_model model;
  int method, device, log_level;
  yk_device_ids devices;
  bool ranks_given;
  const char *calibration_path;
  char *calibration, *command; /* owned */
  const char *keep[MAX_KEPT];
} quantize_options;

static const char about[] =
    "Write a Hugging Face checkpoint of 16- or 32-bit weights as one of 4-bit weights in AWQ's gemm format, which "
    "yoke and vLLM load, and transformers where there are no experts. Embedding, lm_head, norms and router gates "
    "stay as they are; so do layers whose inputs the group size does not divide, with a warning. rtn rounds each "
    "weight to the nearest of its group's 16 values. awq first runs the model over --calibration, then scales "
    "channels and cuts groups as its activations suggest; it takes the architectures that yoke runs, experts and "
    "latent attention among them. A run that was stopped is continued by the same command after the finished weight "
    "files. CPUs and GPUs write the same bytes with rtn; awq calibrates in float32 on CPUs and in the model's own "
    "type on GPUs.";

static const char examples[] = "  yoke quantize -m Qwen3-8B -o Qwen3-8B-AWQ\n"
                               "  yoke quantize -m Qwen3-8B -o OUT --method awq --calibration text.txt\n"
                               "  yoke quantize -m Llama-3.3-70B -o OUT --device cuda --ranks 4\n"
                               "  yoke quantize -m Mixtral-8x7B -o OUT --group-size 64 --keep layers.0.\n";

static yk_status add_kept(void *value, const char *text, yk_err *err)
{
  quantize_options *options = value;
  if (options->quantize.n_keep == MAX_KEPT)
    return yk_err_set(err, YK_E_INVAL, "expected at most %d names, found one more", MAX_KEPT);
  if (!text[0]) return yk_err_set(err, YK_E_INVAL, "expected a part of a module's name, found \"\"");
  options->keep[options->quantize.n_keep++] = text;
  return YK_OK;
}

/* Refuses combinations of options. */
static void check(quantize_options *options, yk_err *err)
{
  yk_quantize_options *q = &options->quantize;
  q->method = (yk_quantize_method)options->method;
  q->device = (yk_device_kind)options->device;
  q->keep = options->keep;
  if (yk_named_model_check(&options->model, err) != YK_OK) return;
  if (!q->out_dir)
    yk_err_set(err, YK_E_INVAL, "--output: expected a directory, found nothing");
  else if (q->group_size != 32 && q->group_size != 64 && q->group_size != 128 && q->group_size != -1)
    yk_err_set(err, YK_E_INVAL, "--group-size: expected 32, 64, 128 or -1, found %d", (int)q->group_size);
  else if (q->method == YK_QUANTIZE_AWQ && !options->calibration_path)
    yk_err_set(err, YK_E_INVAL, "--method awq: expected --calibration FILE with it, found none");
  else if (q->method == YK_QUANTIZE_RTN && options->calibration_path)
    yk_err_set(err, YK_E_INVAL, "--calibration: expected --method awq with it, found --method rtn");
  else
    yk_device_ids_check(&options->devices, options->device, options->ranks_given ? q->n_ranks : 0, "--ranks", err);
  if (!options->devices.n) return;
  q->device_ids = options->devices.ids;
  q->n_ranks = (int)options->devices.n;
}

/* Returns whether to continue. */
static bool parse(quantize_options *options, int argc, char **argv, int *exit_code)
{
  yk_quantize_options *q = &options->quantize;
  const yk_option own[] = {
      {"output", "o", YK_OPTION_STRING, &q->out_dir, "DIR",
       .help = "empty, new, or of the same command stopped; required"},
      {"method", NULL, YK_OPTION_CHOICE, &options->method, .help = "how, see above", .choices = method_names},
      {"group-size", NULL, YK_OPTION_INT, &q->group_size, "N", .help = "inputs of a scale: 32, 64, 128; -1: all",
       .min = -1, .max = 128},
      {"keep", NULL, YK_OPTION_CALL, options, "NAME",
       .help = "modules that stay: NAME between the dots of theirs, as layers.0, self_attn, mlp.down_proj; repeatable",
       .parse = add_kept},
      {"calibration", NULL, YK_OPTION_STRING, &options->calibration_path, "FILE",
       .help = "with --method awq: a text; - is stdin"},
      {"calibration-tokens", NULL, YK_OPTION_INT, &q->calibration_tokens, "N",
       .help = "that are read of it, 512 at a time", .min = 16, .max = 1 << 20},
      {"device", NULL, YK_OPTION_CHOICE, &options->device, .help = "auto: GPUs where there are any",
       .choices = yk_device_names},
      {"ranks", NULL, YK_OPTION_INT, &q->n_ranks, "N", .help = "devices, over which weight files are distributed",
       .min = 1, .max = YK_MAX_RANKS, .given = &options->ranks_given},
      {"devices", NULL, YK_OPTION_CALL, &options->devices, "LIST", .help = "GPUs of the ranks, as 0,2,3",
       .fallback = "0 to N - 1", .parse = yk_device_ids_parse},
      {"threads", NULL, YK_OPTION_INT, &q->n_cpu_threads, "N", .help = "CPU threads of all ranks",
       .fallback = "every core", .min = 1, .max = 4096},
      {"log-level", NULL, YK_OPTION_CHOICE, &options->log_level, "LEVEL",
       .help = "error, warn, info (with progress) or debug", .choices = yk_log_level_names},
  };
  yk_option model[YK_NAMED_MODEL_OPTIONS];
  yk_named_model_options(&options->model, "the checkpoint's directory, or ORG/NAME; required", model);
  const yk_option_group groups[] = {{"Options", own, sizeof own / sizeof own[0]},
                                    {"Model", model, YK_NAMED_MODEL_OPTIONS}};
  const yk_command command = {"yoke quantize",
                              "MODEL --output DIR [options]",
                              about,
                              examples,
                              groups,
                              2,
                              .instead = "a directory follows --output",
                              .model = &options->model};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  check(options, &err);
  if (err.code == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

typedef struct session {
  yk_console console;
  yk_interrupt interrupt;
} session;

static bool on_progress(void *user, const char *what, int64_t done, int64_t total)
{
  session *s = user;
  yk_console_bar(&s->console, what, (double)done / (double)(total > 0 ? total : 1), "");
  return yk_interrupt_caught(&s->interrupt) == 0;
}

static void print_report(session *s, const quantize_options *options, const yk_quantize_report *r)
{
  char read[YK_BYTES_TEXT], written[YK_BYTES_TEXT];
  char groups[32] = "one group a row";
  if (options->quantize.group_size > 0)
    snprintf(groups, sizeof groups, "groups of %d", (int)options->quantize.group_size);
  double rate = r->elapsed_s > 0 ? (double)r->read_bytes / r->elapsed_s / 1e9 : 0;
  if (r->n_shards_before)
    yk_log_write(&s->console.log, YK_LOG_INFO, "%d of %d weight files were there already", (int)r->n_shards_before,
                 (int)r->n_shards);
  yk_log_write(&s->console.log, YK_LOG_INFO, "%s: %d layers at 4 bits in %s, %d kept; %s from %s in %.1f s, %.2f GB/s",
               options->quantize.out_dir, (int)r->n_quantised, groups, (int)r->n_kept,
               yk_bytes_format(r->written_bytes, written), yk_bytes_format(r->read_bytes, read), r->elapsed_s, rate);
}

static int run_session(session *s, quantize_options *options, yk_err *err)
{
  yk_quantize_options *q = &options->quantize;
  yk_request *const none = NULL;
  yk_quantize_report report;
  if (yk_named_model_find(&options->model, true, err) != YK_OK) return yk_cli_failure(err);
  q->model_dir = options->model.path;
  if (options->calibration_path)
    if (yk_cli_read_text(options->calibration_path, CALIBRATION_MAX_BYTES, &options->calibration, &q->calibration_bytes,
                         err) != YK_OK)
      return yk_cli_failure(err);
  q->calibration = options->calibration;
  q->log = s->console.log;
  q->progress = on_progress;
  q->progress_user = s;
  yk_interrupt_watch(&s->interrupt, &none, 0);
  yk_status status = yk_quantize(q, &report, err);
  yk_console_clear(&s->console);
  int caught = yk_interrupt_caught(&s->interrupt);
  if (status == YK_E_CANCELLED && caught) {
    yk_log_write(&s->console.log, YK_LOG_WARN,
                 "stopped with %d of %d weight files done; to continue:", (int)report.n_shards_done,
                 (int)report.n_shards);
    yk_log_write(&s->console.log, YK_LOG_WARN, "%s", options->command ? options->command : "the same command");
    return YK_EXIT_SIGNAL + caught;
  }
  if (status != YK_OK) return yk_cli_failure(err);
  print_report(s, options, &report);
  return YK_EXIT_OK;
}

static int run(session *s, quantize_options *options, yk_err *err)
{
  if (yk_interrupt_start(&s->interrupt, &s->console, err) != YK_OK) return yk_cli_failure(err);
  yk_interrupt_be_quiet(&s->interrupt);
  int exit_code = run_session(s, options, err);
  yk_interrupt_stop(&s->interrupt);
  return exit_code;
}

int yk_cli_quantize(int argc, char **argv)
{
  quantize_options options = {.method = YK_QUANTIZE_RTN, .log_level = YK_LOG_INFO};
  session s;
  yk_err err = YK_ERR_INIT;
  int exit_code;
  yk_quantize_options_init(&options.quantize);
  options.command = yk_command_text("yoke quantize", argc, argv);
  if (parse(&options, argc, argv, &exit_code)) {
    yk_console_init(&s.console, (yk_log_level)options.log_level);
    exit_code = run(&s, &options, &err);
  }
  yk_named_model_free(&options.model);
  free(options.devices.ids);
  free(options.command);
  free(options.calibration);
  return exit_code;
}
