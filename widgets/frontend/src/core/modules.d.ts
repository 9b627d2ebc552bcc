declare module "*.css" {
  const text: string;
  export default text;
}
declare module "worker:*" {
  const text: string;
  export default text;
}
