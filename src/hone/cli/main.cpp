// hone, swift, llamafactory-cli, lmf, accelerate: one program, the name it is called by decides.
#include "hone/cli/run.h"

int main(int count, char** words) { return hone::cli::run_program(words[0], {words + 1, words + count}); }
