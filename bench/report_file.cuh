/* report_file.cuh - the file that a benchmark's figures go to as JSON: opened before the work, which would be lost otherwise. */
#ifndef YK_BENCH_REPORT_FILE_CUH
#define YK_BENCH_REPORT_FILE_CUH

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace bench {

[[noreturn]] inline void refuse_report(const char *program, const std::string &path)
{
  std::fprintf(stderr, "%s: %s: %s\n", program, path.c_str(), std::strerror(errno));
  std::exit(1);
}

/* NULL for an empty path. Ends the program where the file cannot be written. */
inline FILE *open_report(const char *program, const std::string &path)
{
  if (path.empty()) return nullptr;
  FILE *file = std::fopen(path.c_str(), "w");
  if (!file) refuse_report(program, path);
  return file;
}

inline void close_report(const char *program, const std::string &path, FILE *file)
{
  if (file && std::fclose(file) != 0) refuse_report(program, path);
}

} // namespace bench

#endif
