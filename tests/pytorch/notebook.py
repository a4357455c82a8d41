"""notebook.py NOTEBOOK FOLDER: runs the cells of a notebook there, prints them with what they print, and writes FOLDER/executed.ipynb. 1: a cell, or a
program that it has started, has failed."""

import sys

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

notebook, folder = sys.argv[1:]
document = nbformat.read(notebook, as_version=4)
client = NotebookClient(document, timeout=3600, kernel_name="python3", resources={"metadata": {"path": folder}})
failed = False
with client.setup_kernel():
    for number, cell in enumerate(document.cells):
        if cell.cell_type != "code":
            continue
        # What a line with `!` has started ends with _exit_code; nothing else tells.
        starts = any(line.startswith("!") for line in cell.source.splitlines())
        if starts:
            cell = nbformat.v4.new_code_cell(cell.source + "\nassert not _exit_code, f'exit code {_exit_code}'", id=cell.id)
        print("\n".join(f">>> {line}" for line in cell.source.splitlines() if not starts or line.startswith("!")))
        try:
            client.execute_cell(cell, number)
        except CellExecutionError as error:
            print(error)
            failed = True
        for output in cell.outputs:
            print((output.get("text") or output.get("data", {}).get("text/plain", "")).rstrip("\n"))
        document.cells[number].outputs = cell.outputs
nbformat.write(document, f"{folder}/executed.ipynb")
sys.exit(failed)
