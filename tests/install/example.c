/* example.c - a complete program on the installed library: answer the prompts of the command line, all at once.
 *
 *   cc $(pkg-config --cflags yoke) example.c $(pkg-config --libs yoke) -o example
 *   ./example tests/models/demo "348+275=" "Sort: k b z a ->" */
#include <stdio.h>
#include <stdlib.h>
#include <yoke/yoke.h>

static int fail(const char *what, const yk_err *err)
{
  fprintf(stderr, "example: %s: %s\n", what, err->message);
  return 1;
}

/* Print one answer as it arrives. Returns 0 if it ended well. */
static int print_answer(const char *prompt, yk_request *request)
{
  yk_err err = YK_ERR_INIT;
  const yk_output *output;
  printf("%s", prompt);
  do {
    if (yk_request_next(request, 60.0, &output, &err) != YK_OK) return fail(prompt, &err);
    fwrite(output->text, 1, output->text_bytes, stdout);
    fflush(stdout);
  } while (output->finish == YK_FINISH_NONE);
  printf("\n");
  return 0;
}

static int answer_all(yk_engine *engine, char **prompts, int n)
{
  yk_err err = YK_ERR_INIT;
  yk_request **requests = (yk_request **)calloc((size_t)n, sizeof *requests);
  int status = requests == NULL;
  for (int i = 0; i < n && status == 0; i++) { /* submit all of them first, so that they run together */
    yk_request_options options;
    yk_request_options_init(engine, &options);
    options.text = prompts[i];
    options.sampling.temperature = 0;
    options.sampling.max_tokens = 32;
    if (yk_engine_submit(engine, &options, &requests[i], &err) != YK_OK) status = fail(prompts[i], &err);
  }
  for (int i = 0; i < n && status == 0; i++) status = print_answer(prompts[i], requests[i]);
  for (int i = 0; i < n && requests; i++) yk_request_free(requests[i]);
  free(requests);
  return status;
}

int main(int argc, char **argv)
{
  yk_process_init();
  yk_err err = YK_ERR_INIT;
  yk_engine *engine;
  yk_engine_options options;
  if (argc < 3) {
    fprintf(stderr, "usage: example MODEL_DIR PROMPT...\n");
    return 2;
  }
  yk_engine_options_init(&options);
  options.model_dir = argv[1];
  options.n_ranks = 2;
  options.log = yk_log_stderr(YK_LOG_WARN);
  if (yk_engine_create(&options, &engine, &err) != YK_OK) return fail(argv[1], &err);
  int status = answer_all(engine, argv + 2, argc - 2);
  yk_engine_destroy(engine);
  return status;
}
