/* yoke bench - measurements. */
#include <string.h>

#include "cli/cli.h"

static const char examples[] = "  yoke bench machine --help\n";

int yk_cli_bench(int argc, char **argv)
{
  const yk_command command = {"yoke bench", "machine [options]", "Measure this machine: see yoke bench machine --help.",
                              examples, .n_groups = 0};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  int exit_code;
  if (argc > 0 && strcmp(argv[0], "machine") == 0) return yk_cli_bench_machine(argc - 1, argv + 1);
  if (!yk_cli_begin(&command, argc, argv, &arguments, &exit_code)) return exit_code;
  yk_err_set(&err, YK_E_INVAL, "expected \"machine\", found nothing");
  return yk_cli_usage_error(&command, &err);
}
