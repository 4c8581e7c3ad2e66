//! actix-web with one worker: `actix-hello ADDRESS`.

use std::io;

use actix_web::{App, HttpResponse, HttpServer, http::header, web};

async fn hello() -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((header::SERVER, "actix"))
        .insert_header((header::CONTENT_TYPE, "text/plain"))
        .body("Hello, World!")
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_default();
    actix_web::rt::System::new().block_on(async {
        HttpServer::new(|| App::new().route("/", web::get().to(hello)))
            .workers(1)
            .backlog(1024)
            .bind(address)?
            .run()
            .await
    })
}
