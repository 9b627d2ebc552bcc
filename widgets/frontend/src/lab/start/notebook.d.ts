declare module "*.ipynb" {
  const notebook: import("@jupyterlab/nbformat").INotebookContent;
  export default notebook;
}
