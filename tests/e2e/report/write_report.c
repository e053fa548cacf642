/* write_report STUDY.json REPORT.html - the report of a study that lies in a file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "study/report.h"

int main(int argc, char **argv)
{
  yk_err err = YK_ERR_INIT;
  char *text = NULL;
  size_t n_bytes = 0;
  if (argc != 3) {
    fprintf(stderr, "usage: write_report STUDY.json REPORT.html\n");
    return 2;
  }
  yk_status status = yk_file_read(argv[1], SIZE_MAX / 2, &text, &n_bytes, &err);
  if (status == YK_OK) status = yk_study_report_write(argv[2], text, n_bytes, &err);
  free(text);
  if (status != YK_OK) fprintf(stderr, "%s\n", err.message);
  return status != YK_OK;
}
