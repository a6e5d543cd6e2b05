#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app{"r2ccl: collectives that a broken network cannot stop"};
  CLI11_PARSE(app, argc, argv);
}
