/* yoke study report - draw the report and figures of an existing study with this version. */
#include "cli/cli.h"
#include "cli/study/study_print.h"
#include "cli/study/study_tools.h"
#include "study/output.h"

static const char about[] =
    "Write the files of a study again from its study.json: the report, tables for spreadsheets and LaTeX, and each "
    "figure as SVG and PDF. Nothing is measured, and neither model nor GPU is needed.";

static const char examples[] = "  yoke study report scaling/study.json --output-dir scaling\n";

static yk_status write_report(const char *path, const char *output_dir, yk_err *err)
{
  json_t *study;
  YK_TRY(yk_study_read(path, &study, err));
  yk_status status = yk_study_write(output_dir, study, err);
  if (status == YK_OK) {
    yk_study_print_table(study);
    status = yk_cli_flush(err);
  }
  json_decref(study);
  return status;
}

int yk_cli_study_report(int argc, char **argv)
{
  const char *output_dir = NULL;
  const yk_option own[] = {
      {"output-dir", "o", YK_OPTION_STRING, &output_dir, "DIR", .help = "where the files are written; required"}};
  const yk_option_group groups[] = {{"Report", own, 1}};
  const yk_command command = {"yoke study report",   "STUDY.json --output-dir DIR", about, examples, groups, 1,
                              .takes_operands = true};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  int exit_code;
  if (!yk_cli_begin(&command, argc, argv, &arguments, &exit_code)) return exit_code;
  if (arguments.n_operands != 1)
    yk_err_set(&err, YK_E_INVAL, "expected one study, STUDY.json, found %zu", arguments.n_operands);
  else if (!output_dir)
    yk_err_set(&err, YK_E_INVAL, "--output-dir: expected a directory, found nothing");
  if (err.code != YK_OK) return yk_cli_usage_error(&command, &err);
  return write_report(arguments.operands[0], output_dir, &err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
}
