/* write_report STUDY.json REPORT.html - writes the report of a study file. */
#include <stdio.h>

#include "study/report.h"

int main(int argc, char **argv)
{
  yk_err err = YK_ERR_INIT;
  json_t *study = NULL;
  if (argc != 3) {
    fprintf(stderr, "usage: write_report STUDY.json REPORT.html\n");
    return 2;
  }
  yk_status status = yk_tree_parse_file(argv[1], &study, &err);
  if (status == YK_OK) status = yk_study_report_write(argv[2], study, &err);
  json_decref(study);
  if (status != YK_OK) fprintf(stderr, "%s\n", err.message);
  return status != YK_OK;
}
