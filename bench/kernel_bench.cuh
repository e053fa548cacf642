/* kernel_bench.cuh - shared by the benchmarks of kernels: the options of the command line, and the JSON file of
 * results. */
#ifndef YK_BENCH_KERNEL_BENCH_CUH
#define YK_BENCH_KERNEL_BENCH_CUH

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/check.cuh"

namespace bench {

/* The JSON file for the results, and the commit to record in it. */
struct report_options {
  const char *json = "", *commit = "unknown";
};

inline void add_options(std::vector<yk_option> &options, report_options &o)
{
  options.push_back({.name = "json",
                     .kind = YK_OPTION_STRING,
                     .value = &o.json,
                     .metavar = "FILE",
                     .help = "also write the figures as JSON"});
  options.push_back({.name = "commit",
                     .kind = YK_OPTION_STRING,
                     .value = &o.commit,
                     .metavar = "ID",
                     .help = "recorded in the JSON"});
}

/* Read the command line into the options' values. Ends the program after --help and on errors. */
inline void parse_options(const char *name, const char *about, const char *examples,
                          const std::vector<yk_option> &options, int argc, char **argv)
{
  const yk_option_group group = {"Options", options.data(), options.size()};
  const yk_command command = {
      .name = name, .usage = "[options]", .about = about, .examples = examples, .groups = &group, .n_groups = 1};
  yk_arguments arguments;
  int exit_code;
  if (!yk_cli_begin(&command, argc - 1, argv + 1, &arguments, &exit_code)) std::exit(exit_code);
}

/* Replace numbers by the list in a text such as "1,8,64". Errors: those of yk_int_list_parse. */
inline yk_status parse_numbers(const char *text, std::vector<int32_t> &numbers, yk_err *err)
{
  int32_t *parsed = nullptr;
  size_t n = 0;
  const yk_status status = yk_int_list_parse(text, &parsed, &n, err);
  numbers.assign(parsed, parsed + n);
  free(parsed);
  return status;
}

[[noreturn]] inline void refuse_file(const char *path)
{
  yk_err err = YK_ERR_INIT;
  yk_err_set(&err, YK_E_IO, "%s: %s", path, std::strerror(errno));
  give_up(err);
}

/* Open the file of results; NULL if no file is requested. Call this before measuring, so that an unwritable path fails
 * early. */
inline FILE *open_figures(const report_options &options)
{
  if (!*options.json) return nullptr;
  FILE *file = std::fopen(options.json, "w");
  if (!file) refuse_file(options.json);
  return file;
}

inline void close_figures(const report_options &options, FILE *file)
{
  if (file && std::fclose(file) != 0) refuse_file(options.json);
}

} // namespace bench

#endif
