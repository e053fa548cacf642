/* yoke - the program: finds the subcommand and calls it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/name_nearest.h"
#include "cli/cli.h"
#include "yoke/yoke.h"

static const struct {
  const char *name, *about;
  int (*run)(int argc, char **argv);
} commands[] = {
    {"generate", "continue prompts with a language model", yk_cli_generate},
    {"chat", "talk with a language model", yk_cli_chat},
    {"serve", "answer OpenAI's requests over HTTP", yk_cli_serve},
    {"batch", "continue the prompts of a JSONL file, with resume", yk_cli_batch},
    {"score", "log-probabilities and perplexity of a text", yk_cli_score},
    {"bench", "speed of one load; bench machine: of the machine", yk_cli_bench},
    {"study", "how a model scales over ranks, with error bars", yk_cli_study},
    {"plan", "memory of a model on 1 to 8 ranks", yk_cli_plan},
    {"convert", "a quantised model in another format, exactly", yk_cli_convert},
    {"quantize", "16-bit weights to 4 bits, as vLLM reads them too", yk_cli_quantize},
    {"tokenize", "text to token ids", yk_cli_tokenize},
    {"detokenize", "token ids to text", yk_cli_detokenize},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static int print_help(void)
{
  printf("Usage: yoke COMMAND [options]\n\nRuns quantised language models split over several devices.\n\nCommands:\n");
  for (size_t i = 0; i < N_COMMANDS; i++) printf("  %-12s %s\n", commands[i].name, commands[i].about);
  printf("\n  yoke COMMAND --help   its options and examples\n  yoke --version        the version\n\n"
         "Example:\n  yoke generate --model Qwen3-8B-AWQ --tp 2 --prompt \"Once upon a time\"\n\n"
         "Exit codes: 0 done, 1 something failed, 2 wrong command line,\n            130 after Ctrl-C.\n");
  yk_err err = YK_ERR_INIT;
  return yk_cli_flush(&err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
}

static int print_unknown(const char *name)
{
  const char *names[N_COMMANDS];
  for (size_t i = 0; i < N_COMMANDS; i++) names[i] = commands[i].name;
  const char *nearest = yk_name_nearest(name, names, N_COMMANDS);
  yk_log log = yk_log_stderr(YK_LOG_INFO);
  if (nearest)
    yk_log_write(&log, YK_LOG_ERROR, "unknown command \"%.80s\"; did you mean %s?", name, nearest);
  else
    yk_log_write(&log, YK_LOG_ERROR, "unknown command \"%.80s\"", name);
  yk_log_write(&log, YK_LOG_INFO, "see yoke --help");
  return YK_EXIT_USAGE;
}

int main(int argc, char **argv)
{
  yk_process_init();
  signal(SIGPIPE, SIG_IGN); /* a closed pipe becomes a failed write */
  signal(SIGXFSZ, SIG_IGN); /* and so does a file above the limit of the shell (ulimit -f) */
  if (argc < 2) {
    yk_log log = yk_log_stderr(YK_LOG_ERROR);
    yk_log_write(&log, YK_LOG_ERROR, "expected a command, found nothing; see yoke --help");
    return YK_EXIT_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) return print_help();
  if (strcmp(name, "--version") == 0) {
    printf("yoke %s\n", yk_version());
    yk_err err = YK_ERR_INIT;
    return yk_cli_flush(&err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
  }
  for (size_t i = 0; i < N_COMMANDS; i++)
    if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 2, argv + 2);
  return print_unknown(name);
}
